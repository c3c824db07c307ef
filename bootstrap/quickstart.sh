#!/usr/bin/env bash
# From a clone to a trained harness: environment, install, then `ht quickstart`.  Rerunning goes on where it stopped.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
epochs=${HT_QUICKSTART_EPOCHS:-8}
place=${HT_QUICKSTART_DIR:-quickstart}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: Python 3.11 or newer is needed" >&2; exit 6; }
test -x .venv/bin/python || "$python" -m venv .venv
if ! .venv/bin/python -c 'import harnesstrain, xllamacpp, altair, jinja2, vl_convert' 2>/dev/null; then
  echo "# installing harnesstrain with its embedded engine and reports into .venv" >&2
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[embedded,report]'
fi
exec .venv/bin/ht quickstart "$place" --n "$epochs"
