#!/bin/sh
set -e
cd /app
printf 'apples\nbread\nmilk\n' > shopping.txt
