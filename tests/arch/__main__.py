"""`python -m tests.arch`: list every breach; exit 1 when there is one."""

import sys

from tests.arch.rules import breaches

found = breaches()
for line in found:
    print(line)
sys.exit(1 if found else 0)
