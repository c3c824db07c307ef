mkdir -p /logs/verifier
[ "$(cat /app/answer.txt)" = "$(wc -l < /app/data)" ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt
