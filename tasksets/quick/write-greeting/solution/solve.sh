#!/bin/sh
set -e
cd /app
echo 'Good morning, Vienna.' > greeting.txt
