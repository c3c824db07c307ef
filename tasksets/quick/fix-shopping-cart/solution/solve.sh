#!/bin/sh
set -e
cd /app
sed -i 's/price + quantity/price * quantity/; s/amount > 50/amount >= 50/' cart.py
