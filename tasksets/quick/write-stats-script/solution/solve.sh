#!/bin/sh
set -e
cd /app
cat > stats.py <<'END'
import sys

numbers = [int(line) for line in open(sys.argv[1]) if line.strip()]
print('min:', min(numbers))
print('max:', max(numbers))
print('sum:', sum(numbers))
END
