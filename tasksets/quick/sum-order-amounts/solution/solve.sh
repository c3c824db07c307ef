#!/bin/sh
set -e
cd /app
awk -F, 'NR > 1 { total += $3 } END { print total }' orders.csv > total.txt
