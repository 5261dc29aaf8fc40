"""Sphinx's settings for the site: `make docs` builds it into docs/_build/html."""

import sys
from pathlib import Path

import unihssl

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "unihssl"
copyright = "the unihssl authors"
release = unihssl.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "source_pages"]
exclude_patterns = ["_build", "notebooks"]
source_suffix = {".md": "markdown"}

myst_heading_anchors = 4  # links to headings work as they do on a code host
default_role = "code"  # docstrings have `names` in single backticks
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
nitpicky = False

html_theme = "furo"
html_title = f"unihssl {release}"
html_copy_source = False
html_show_sphinx = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5cad", "color-brand-content": "#0b5cad"},
    "dark_css_variables": {"color-brand-primary": "#7ab8ff", "color-brand-content": "#7ab8ff"},
}
html_static_path = ["_static"]
html_css_files = ["site.css"]
