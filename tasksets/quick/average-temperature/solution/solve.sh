#!/bin/sh
set -e
cd /app
awk -F, '$2 == "Rome" { s += $3; n++ } END { printf "%.1f\n", s / n }' weather.csv > average.txt
