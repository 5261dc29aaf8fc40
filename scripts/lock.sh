#!/bin/sh
# Write requirements.txt and requirements-dev.txt: the versions of constraints.txt with the hashes of all their archives,
# for every platform. And constraints-lowest.txt: the oldest versions that pyproject.toml allows.
# Run it after a dependency was added or a pin was changed.
set -eu
cd "$(dirname "$0")/.."
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
"${PYTHON:-python3}" -m venv "$place"
"$place/bin/python" -m pip install --quiet --disable-pip-version-check uv==0.13.7

lock() {
    "$place/bin/uv" pip compile pyproject.toml --quiet --no-header --no-annotate --system-certs --upgrade "$@"
}
lock --universal --python-version 3.11.5 -c constraints.txt --generate-hashes --output-file requirements.txt
lock --universal --python-version 3.11.5 -c constraints.txt --generate-hashes --extra dev --output-file requirements-dev.txt
lock --python-version 3.11 --resolution lowest-direct --extra plots --output-file constraints-lowest.txt
