#!/bin/sh
set -e
cd /app
echo region,units > by_region.csv
awk -F, 'NR > 1 { s[$2] += $4 } END { for (r in s) print r "," s[r] }' sales.csv | sort >> by_region.csv
