#!/bin/sh
set -e
cd /app
awk '$3 == "ERROR" { n[$2]++ } END { for (s in n) print s " " n[s] }' events.log | sort -k2,2nr > counts.txt
