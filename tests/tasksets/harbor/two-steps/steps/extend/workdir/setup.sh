tr A-Z a-z < NAME > name.txt
rm NAME setup.sh
