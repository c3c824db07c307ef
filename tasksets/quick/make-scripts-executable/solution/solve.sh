#!/bin/sh
set -e
cd /app
chmod 755 bin/*.sh
chmod 600 secret.txt
