#!/bin/sh
set -e
cd /app
grep -Eo '[A-Za-z0-9._+-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+' messages.txt | tr 'A-Z' 'a-z' | LC_ALL=C sort -u > emails.txt
