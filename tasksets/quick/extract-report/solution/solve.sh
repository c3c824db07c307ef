#!/bin/sh
set -e
cd /app
tar -xzOf archive.tar.gz reports/2023/report-2023.txt > report-2023.txt
