"""What the tests of kept states share: what can be seen of files, and how a state is taken."""

from __future__ import annotations

import secrets

from harnesstrain.core.records.task import Environment

ENVIRONMENT = Environment(workdir="/app")
LOOK = r"""
echo "pid $$"
cd /; ls -lUR --full-time /app /var /root /home /tmp /dev/shm
find / /dev/shm \( -path /proc -o -path /sys -o -path /usr -o -path /dev \) -prune -o \
  -printf '%p|%y|%m|%U|%G|%s|%b|%k|%n|%l|%A+|%T+|%S\n'
find /app /dev/shm /etc -xdev -type f -print0 | sort -z | xargs -0 sha256sum
python3 - <<'END'
import os
for folder, folders, files in os.walk('/app'):
    for name in folders + files:
        path = os.path.join(folder, name)
        print(ascii(path), [(key, os.getxattr(path, key, follow_symlinks=False))
                            for key in os.listxattr(path, follow_symlinks=False)])
END
"""
"""Everything but device, inode and the times at which these changed and were made."""


def key() -> str:
    return secrets.token_hex(32)
