#!/bin/sh
set -e
cd /app
sed -i 's/^port = 8080$/port = 9090/' server.conf
