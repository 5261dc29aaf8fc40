"""The files that `make` installs from agree with each other: scripts/lock.sh writes them."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)(.*)$")


def pins(name: str) -> dict[str, tuple[str, str]]:
    """Package -> its version and the rest of its line, hashes included."""
    lines = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    found = [match for line in lines if (match := PIN.match(line))]
    return {normal(match[1]): (match[2], match[3]) for match in found}


def normal(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


def lower_bounds() -> dict[str, str]:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    return {normal(name): bound for name, _, bound in (line.partition(">=") for line in listed)}


@pytest.mark.parametrize("file", ["requirements.txt", "requirements-dev.txt"])
def test_every_package_has_hashes_and_the_pinned_version(file):
    found, pinned = pins(file), pins("constraints.txt")
    assert lower_bounds().keys() <= found.keys()
    for name, (version, rest) in found.items():
        assert re.search("--hash=sha256:[0-9a-f]{64}", rest), name
        assert version == pinned.get(name, (version,))[0], f"{name}: run scripts/lock.sh"


def test_the_lowest_versions_are_those_that_are_allowed():
    found = pins("constraints-lowest.txt")
    for name, bound in lower_bounds().items():
        number, least = ([int(part) for part in text.split(".")] for text in (found[name][0], bound))
        assert number[: len(least)] == least, f"{name}: run scripts/lock.sh"


def test_development_installs_what_the_tests_need():
    found = pins("requirements-dev.txt").keys()
    assert pins("requirements.txt").keys() <= found
    assert {"pytest", "pytest-xdist", "hypothesis", "mypy", "ruff", "import-linter"} <= found
