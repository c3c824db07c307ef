#!/bin/sh
set -e
cd /app
python3 -c "import json; print(sum(i['price'] * i['quantity'] for i in json.load(open('stock.json'))['items']))" > value.txt
