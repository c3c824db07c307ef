#!/bin/sh
set -e
cd /app
LC_ALL=C sort logs/web.log logs/db.log logs/mail.log > merged.log
