#!/bin/sh
set -e
cd /app
awk '!seen[$1]++ { print $1 }' access.log > visitors.txt
