#!/bin/sh
# Grades the state of /app.  Writes 1 or 0 to /logs/verifier/reward.txt.
# No reward is written when the check itself could not run.
mkdir -p /logs/verifier
python3 -ISB /tests/check.py
checked=$?
rm -rf /logs/verifier/reward.txt /logs/verifier/reward.json
case $checked in
0) echo 1 >/logs/verifier/reward.txt ;;
1) echo 0 >/logs/verifier/reward.txt ;;
esac
exit 0
