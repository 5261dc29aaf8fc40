#!/bin/sh
# Install the wheel of dist/ (`make dist`) into an empty environment and run the demo from an empty folder.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
unset PYTHONPATH || true

"${PYTHON:-python3}" -m venv "$place/venv"
"$place/venv/bin/python" -m pip install --quiet --disable-pip-version-check -c "$root/constraints.txt" "$root"/dist/*.whl
cd "$place"
venv/bin/unihssl --version
venv/bin/unihssl --help > /dev/null
venv/bin/unihssl demo --out demo
test -s demo/unihssl-0/report.html
echo "the wheel works"
