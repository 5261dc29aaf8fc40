"""The documentation site builds without a warning, and its generated pages are complete."""

import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

import unihssl
from unihssl.cli import COMMANDS
from unihssl.config import Settings, knob_fields

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for needed in ("sphinx", "furo", "myst_parser"):
        pytest.importorskip(needed, reason="the site needs pip install 'unihssl[docs]'")
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", str(DOCS), str(folder)]
    done = subprocess.run(build, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def page(site: Path, name: str) -> str:
    return unescape((site / f"{name}.html").read_text(encoding="utf-8"))


def test_every_command_setting_and_public_name_is_there(site):
    commands, settings, api = (page(site, name) for name in ("commands", "settings", "api"))
    assert [c.__name__ for c in COMMANDS if f"unihssl {c.__name__}<" not in commands] == []
    assert [name for name in knob_fields(Settings) if f">{name}<" not in settings] == []
    assert [name for name in unihssl.__all__ if name != "__version__" and f">{name}<" not in api] == []


def test_links_out_of_the_documentation_lead_to_the_site(site):
    assert 'href="results-trust.html#audit"' in page(site, "audit")
    assert 'href="_downloads/' in page(site, "results")


def test_nothing_is_fetched_from_elsewhere(site):
    loaded = re.compile(r'(?:<link[^>]* href|src)="(https?:[^"]+)"')
    assert [found for file in site.glob("*.html") for found in loaded.findall(page(site, file.stem))] == []


@pytest.mark.parametrize("file", [*ROOT.glob("*.md"), *DOCS.glob("*.md")], ids=lambda file: file.name)
def test_relative_links_work_where_the_files_are_read_as_they_are(file):
    targets = re.findall(r"\]\(([^()\s:#]+)(?:#[^()\s]*)?\)", file.read_text(encoding="utf-8"))
    assert [target for target in targets if not (file.parent / target).exists()] == []
