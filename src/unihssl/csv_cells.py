"""Texts in CSV files that a spreadsheet would take for formulas, and run."""

FORMULA = ("=", "+", "-", "@", "\t", "\r")


def safe_cell(text: str) -> str:
    """The text, behind a quote if a spreadsheet would run it.

    >>> safe_cell("=HYPERLINK(1)"), safe_cell("cat")
    ("'=HYPERLINK(1)", 'cat')
    """
    return f"'{text}" if text.startswith(FORMULA) else text


def plain_cell(text: str) -> str:
    """What `safe_cell` was given."""
    return text[1:] if text.startswith("'") and text[1:].startswith(FORMULA) else text
