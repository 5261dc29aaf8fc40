#!/bin/sh
# Look into the wheel of dist/ (`make dist`): it holds the files of src/unihssl and its own description, nothing else.
# Then install it into an empty environment and run the demo from an empty folder.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
unset PYTHONPATH || true

"${PYTHON:-python3}" - "$root"/dist/*.whl "$root/src" <<'EOF'
import sys, zipfile
from pathlib import Path

wheel, source = sys.argv[1], Path(sys.argv[2])
held = {name for name in zipfile.ZipFile(wheel).namelist() if not name.endswith("/")}
about = {name for name in held if name.split("/")[0].endswith(".dist-info")}
files = (path for path in (source / "unihssl").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
wanted = {path.relative_to(source).as_posix() for path in files}
if missing := sorted(wanted - held):
    sys.exit(f"the wheel lacks {missing}")
if more := sorted(held - wanted - about):
    sys.exit(f"the wheel holds more than the package: {more}")
if not any(name.endswith("/LICENSE") for name in about):
    sys.exit("the wheel lacks its licence")
print(f"the wheel holds the package's {len(wanted)} files")
EOF
"${PYTHON:-python3}" -m venv "$place/venv"
"$place/venv/bin/python" -m pip install --quiet --disable-pip-version-check -c "$root/constraints.txt" "$root"/dist/*.whl
cd "$place"
venv/bin/unihssl --version
venv/bin/unihssl --help > /dev/null
venv/bin/unihssl demo --out demo
test -s demo/unihssl-0/report.html
echo "the wheel works"
