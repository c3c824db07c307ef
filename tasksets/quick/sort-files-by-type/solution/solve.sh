#!/bin/sh
set -e
cd /app
mkdir -p images texts
mv inbox/*.jpg images/
mv inbox/*.txt texts/
