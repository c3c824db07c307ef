#!/bin/sh
set -e
cd /app
mkdir -p project/src project/docs project/tests
echo '# Demo project' > project/README.md
: > project/src/__init__.py
