#!/bin/sh
set -e
cd /app
python3 -c "import csv, json
rows = [dict(r, age=int(r['age'])) for r in csv.DictReader(open('people.csv'))]
json.dump(rows, open('people.json', 'w'))"
