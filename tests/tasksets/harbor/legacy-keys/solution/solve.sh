echo "$GREETING" > greeting.txt
