"""Tables as Markdown, as LaTeX and for the terminal. Columns without a number are left out."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from unihssl.experiments.tables import Cell, Table

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table as Grid

LATEX = {"\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}"}
LATEX |= {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "<": r"$<$", ">": r"$>$"}
NOTHING = "-"
NO_NUMBER = "no number, because both domains need test samples of known class; unihssl select ranks runs without any"


def markdown(tables: Sequence[Table]) -> str:
    return "\n".join(_markdown(_without_empty(table)) for table in tables)


def latex(tables: Sequence[Table]) -> str:
    """Tables that need the packages booktabs and adjustbox."""
    return "\n".join(_latex(_without_empty(table)) for table in tables)


def terminal(table: Table, width: int) -> "Group":
    """The table for a terminal of this width: columns that do not fit go into blocks below, each with the labels."""
    from rich.console import Group
    from rich.text import Text

    table = _without_empty(table)
    grids = [_grid(table, block, width) for block in _blocks(table, width)]
    return Group(Text(table.title, "italic"), *grids, *map(Text, _below(table)), Text())


def _without_empty(table: Table) -> Table:
    kept = [i for i in range(len(table.columns) - 1) if any(_plain(cells[i]) != NOTHING for _, cells in table.rows)]
    rows = tuple((label, tuple(cells[i] for i in kept)) for label, cells in table.rows)
    if not kept:
        return replace(table, columns=("",), rows=(), remarks=(NO_NUMBER, *table.remarks))
    return replace(table, columns=(table.columns[0], *(table.columns[i + 1] for i in kept)), rows=rows)


def _grid(table: Table, block: Sequence[int], width: int) -> "Grid":
    from rich.box import SIMPLE_HEAD
    from rich.table import Column
    from rich.table import Table as Grid
    from rich.text import Text

    names = Column(table.columns[0], overflow="fold", min_width=_names_width(table, width))
    columns = [Column(table.columns[i + 1], overflow="fold") for i in block]
    grid = Grid(names, *columns, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for label, cells in table.rows:
        shown = [cells[i] for i in block]
        grid.add_row(Text(label), *(Text(_plain(c), "bold" if isinstance(c, Cell) and c.best else "") for c in shown))
    return grid


def _blocks(table: Table, width: int) -> list[list[int]]:
    """The columns of each block: as many as fit the width, at least one."""
    beside = 2  # a column's padding and divider
    blocks: list[list[int]] = [[]]
    start = used = _names_width(table, width) + 2 * beside
    for i in range(len(table.columns) - 1):
        needed = max(len(table.columns[i + 1]), *(len(_plain(cells[i])) for _, cells in table.rows)) + beside
        if blocks[-1] and used + needed > width:
            blocks.append([])
            used = start
        blocks[-1].append(i)
        used += needed
    return blocks


def _names_width(table: Table, width: int) -> int:
    """The width of the first column; labels longer than half of the terminal are wrapped."""
    return min(max((len(label) for label, _ in table.rows), default=0), width // 2)


def _markdown(table: Table) -> str:
    lines = [[_escape(c) for c in table.columns], ["---"] * len(table.columns)]
    for label, cells in table.rows:
        lines.append([_escape(label), *(_markdown_cell(cell) for cell in cells)])
    grid = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    below = "".join(f"- {_escape(line)}\n" for line in _below(table))
    return f"**{_escape(table.title)}**\n\n{grid}" + (f"\n{below}" if below else "")


def _markdown_cell(cell: Cell | str) -> str:
    if isinstance(cell, str):
        return cell
    number = f"**{_number(cell)}**" if cell.best else _number(cell)
    return number + (r"\*" if cell.differs else "") + _compared(cell, "[{}]")


def _escape(text: str) -> str:
    return text.replace("|", r"\|").replace("*", r"\*")


def _latex(table: Table) -> str:
    lines = [[_tex(c) for c in table.columns], *([_tex(name), *map(_latex_cell, cells)] for name, cells in table.rows)]
    head, *body = [" & ".join(line) + " \\\\\n" for line in lines]
    below = "".join(f"\\par\\footnotesize {_tex(line)}\n" for line in _below(table))
    return (
        "\\begin{table}[t]\n\\centering\n"
        f"\\caption{{{_tex(table.title)}}}\n"
        "\\begin{adjustbox}{max width=\\textwidth}\n"
        f"\\begin{{tabular}}{{l{'c' * (len(table.columns) - 1)}}}\n"
        f"\\toprule\n{head}\\midrule\n{''.join(body)}\\bottomrule\n\\end{{tabular}}\n\\end{{adjustbox}}\n"
        f"{below}\\end{{table}}\n"
    )


def _latex_cell(cell: Cell | str) -> str:
    if isinstance(cell, str):
        return _tex(cell)
    number = _tex(_number(cell))
    number = f"\\textbf{{{number}}}" if cell.best else number
    compared = _compared(cell, "$^{{{}}}$").replace(", -", ", $-$").replace(", +", ", $+$")
    return number + ("$^{*}$" if cell.differs else "") + compared


def _tex(text: str) -> str:
    return "".join(LATEX.get(sign, sign) for sign in text).replace("--", "-{}-")  # not a dash


def _plain(cell: Cell | str) -> str:
    return cell if isinstance(cell, str) else _number(cell) + ("*" if cell.differs else "") + _compared(cell, "[{}]")


def _number(cell: Cell) -> str:
    if cell.summary is None:
        return NOTHING
    std = cell.summary.std
    return f"{cell.summary.mean:.1f}" + (f" ± {std:.1f}" if std is not None else "")


def _compared(cell: Cell, mark: str) -> str:
    """The paper's figure with its footnote, and the difference between the numbers as printed."""
    if cell.paper is None:
        return ""
    note = mark.format(cell.note) if cell.note else ""
    digits = 1 if cell.paper == round(cell.paper, 1) else 2  # as the paper prints it
    gap = round(round(cell.summary.mean, 1) - cell.paper, digits) + 0.0 if cell.summary else None  # never -0.0
    return f" ({cell.paper:.{digits}f}{note}" + (")" if gap is None else f", {gap:+.{digits}f})")


def _below(table: Table) -> list[str]:
    return [*(f"[{i}] {text}" for i, text in enumerate(table.footnotes, start=1)), *table.remarks]
