#!/bin/sh
set -e
cd /app
awk '!seen[$0]++' queue.txt > queue_unique.txt
