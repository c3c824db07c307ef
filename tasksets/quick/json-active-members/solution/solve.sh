#!/bin/sh
set -e
cd /app
python3 -c "import json
for m in json.load(open('team.json'))['members']:
    if m['active']: print(m['name'])" > active.txt
