mkdir -p /logs/verifier
if [ "$(cat /app/greeting.txt)" = hello ]; then echo 1.0; else echo 0; fi > /logs/verifier/reward.txt
