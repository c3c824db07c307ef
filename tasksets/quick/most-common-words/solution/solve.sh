#!/bin/sh
set -e
cd /app
tr 'A-Z' 'a-z' < story.txt | grep -o '[a-z]*' | sort | uniq -c | sort -rn | head -n 3 | awk '{ print $2 " " $1 }' > top3.txt
