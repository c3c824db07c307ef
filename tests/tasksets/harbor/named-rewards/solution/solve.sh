echo 'seq 5' > count.sh
