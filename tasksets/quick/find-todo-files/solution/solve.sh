#!/bin/sh
set -e
cd /app
grep -rl TODO /app/src | LC_ALL=C sort > todo.txt
