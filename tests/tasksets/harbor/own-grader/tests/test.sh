mkdir -p /logs/verifier
if [ "$(cat /app/report.txt)" = done ] && [ "$(cat /app/build/out.txt)" = artifact ] &&
  grep -q report.txt /app/build/listing && [ ! -e /app/build/scrap.tmp ] && [ ! -e /app/trap ]
then echo 1; else echo 0; fi > /logs/verifier/reward.txt
