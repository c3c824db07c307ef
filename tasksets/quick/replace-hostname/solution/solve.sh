#!/bin/sh
set -e
cd /app
find etc -name '*.conf' -exec sed -i 's/db1\.example\.net/db7.example.net/g' {} +
