#!/bin/sh
set -e
cd /app
sed -i 's/range(start, 1, -1)/range(start, 0, -1)/' countdown.py
