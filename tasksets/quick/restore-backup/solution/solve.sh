#!/bin/sh
set -e
cd /app
mkdir restored
tar -xf backup.tar -C restored
chmod 600 restored/keys/id.key
