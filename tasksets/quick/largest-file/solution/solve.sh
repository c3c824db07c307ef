#!/bin/sh
set -e
cd /app
find data -type f -printf '%s %f\n' | sort -n | tail -n 1 | cut -d ' ' -f 2 > largest.txt
