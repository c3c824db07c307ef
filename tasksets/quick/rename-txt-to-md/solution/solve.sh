#!/bin/sh
set -e
cd /app
for f in notes/*.txt; do mv "$f" "${f%.txt}.md"; done
