#!/bin/sh
set -e
cd /app
cat > initials.py <<'END'
import sys

for line in open(sys.argv[1]):
    if line.strip():
        print(''.join(word[0].upper() for word in line.split()))
END
