#!/bin/sh
set -e
cd /app
sed -i '/def km_to_m/,/return/ s/value \* 100$/value * 1000/' lengths.py
sed -i '/def g_to_kg/,/return/ s/value \* 1000/value \/ 1000/' weights.py
