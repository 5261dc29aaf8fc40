"""Pages as Sphinx reads them: generated parts are filled in, and links that leave docs/ are pointed at the site.

A page says where a generated part belongs by a comment, such as `<!-- site: settings -->`, which a code host hides.
"""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import api_page
import commands_page
import settings_page

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
LINK = re.compile(r"(?<!!)\[(?P<text>[^\[\]]+)\]\((?P<target>[^()\s:]+)\)")
MARK = re.compile(r"<!-- site: (\w+)(?: (\S+))? -->")
PAGES = {ROOT / "results/README.md": "results.md", ROOT / "CHANGELOG.md": "changelog.md"}
PAGES |= {ROOT / "CONTRIBUTING.md": "contributing.md", ROOT / "README.md": "index.md"}
PAGES |= {ROOT / f"results/{name}.md": f"results-{name}.md" for name in ("conditions", "trust", "speed", "history")}


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", read_page)
    app.connect("autodoc-process-docstring", api_page.shorten)
    app.connect("autodoc-skip-member", api_page.skip)
    app.connect("autodoc-process-signature", api_page.signature)
    return {"parallel_read_safe": True}


def read_page(_app: Any, _page: str, source: list[str]) -> None:
    """Sphinx's event: `source` holds the text of a page, to be replaced."""
    if (mark := MARK.search(source[0])) and mark[1] in WHOLE:
        source[0] = WHOLE[mark[1]](mark[2])
    else:
        source[0] = MARK.sub(lambda mark: PARTS[mark[1]](), site_links(source[0], DOCS))


def site_links(text: str, folder: Path) -> str:
    """Point the relative links of a text that lies in `folder` at pages and files of the site."""
    return LINK.sub(lambda link: _site_link(link["text"], link["target"], folder), text)


def _site_link(text: str, target: str, folder: Path) -> str:
    name, mark, anchor = target.partition("#")
    path = Path(os.path.normpath(folder / name)) if name else None
    if path is None or path.suffix in (".html", ""):
        is_folder = path is not None and path.is_dir()
        return text if is_folder else f"[{text}]({target})"  # the site has no page for a folder
    if path in PAGES:
        return f"[{text}]({PAGES[path]}{mark}{anchor})"
    if path.is_relative_to(DOCS) and path.suffix == ".md":
        return f"[{text}]({path.relative_to(DOCS)}{mark}{anchor})"
    return f"[{text}](<path:{os.path.relpath(path, DOCS)}>)"  # a file to download


def included(name: str) -> str:
    """The text of a file above docs/."""
    path = ROOT / name
    return site_links(path.read_text(encoding="utf-8"), path.parent)


def notebook(name: str) -> str:
    """A notebook's cells as Markdown, with a link to download it."""
    cells = json.loads((DOCS / name).read_text(encoding="utf-8"))["cells"]
    forms = {"markdown": "{}", "code": "```python\n{}\n```"}
    texts = [forms[cell["cell_type"]].format("".join(cell["source"])) for cell in cells]
    return "\n\n".join([*texts, f"[Download this notebook](<path:{name}>)"])


WHOLE: dict[str, Callable[[str], str]] = {"include": included, "notebook": notebook}  # take the place of their page
PARTS: dict[str, Callable[[], str]] = {
    "commands": commands_page.markdown,
    "settings": settings_page.markdown,
    "api": api_page.markdown,
}
