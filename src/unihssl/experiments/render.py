"""A table as Markdown, LaTeX or for the terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from unihssl.experiments.tables import Cell, Table

if TYPE_CHECKING:
    from rich.console import Group

LATEX = {"\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}"}
LATEX |= {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "<": r"$<$", ">": r"$>$"}
NOTHING = "-"


def markdown(tables: Sequence[Table]) -> str:
    return "\n".join(map(_markdown, tables))


def latex(tables: Sequence[Table]) -> str:
    """Needs the packages booktabs and graphicx."""
    return "\n".join(map(_latex, tables))


def terminal(table: Table) -> "Group":
    """Columns without a number are left out, and long words broken rather than cut: a terminal may be narrow."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Group
    from rich.table import Column
    from rich.table import Table as Grid
    from rich.text import Text

    kept = [i for i in range(len(table.columns) - 1) if any(_plain(cells[i]) != NOTHING for _, cells in table.rows)]
    columns = [Column(table.columns[i + 1], overflow="fold", min_width=5) for i in kept]
    grid = Grid(
        Column(table.columns[0], no_wrap=True),
        *columns,
        title=table.title,
        title_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for label, cells in table.rows:
        grid.add_row(Text(label), *(Text(_plain(cells[i]), _style(cells[i])) for i in kept))
    return Group(grid, *map(Text, _below(table)))


def _style(cell: Cell | str) -> str:
    return "bold" if isinstance(cell, Cell) and cell.best else ""


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
    head, *body = [" & ".join(line) + r" \\" for line in lines]
    below = "".join(f"\\par\\footnotesize {_tex(line)}\n" for line in _below(table))
    return (
        "\\begin{table}[t]\n\\centering\n"
        f"\\caption{{{_tex(table.title)}}}\n"
        "\\resizebox{\\textwidth}{!}{%\n"
        f"\\begin{{tabular}}{{l{'c' * (len(table.columns) - 1)}}}\n"
        f"\\toprule\n{head}\n\\midrule\n" + "\n".join(body) + "\n\\bottomrule\n\\end{tabular}}\n"
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
    return "".join(LATEX.get(sign, sign) for sign in text)


def _plain(cell: Cell | str) -> str:
    return cell if isinstance(cell, str) else _number(cell) + ("*" if cell.differs else "") + _compared(cell, "[{}]")


def _number(cell: Cell) -> str:
    if cell.summary is None:
        return NOTHING
    std = cell.summary.std
    return f"{cell.summary.mean:.1f}" + (f" ± {std:.1f}" if std is not None else "")


def _compared(cell: Cell, mark: str) -> str:
    """The paper's figure with its footnote, and the difference of what is printed."""
    if cell.paper is None:
        return ""
    note = mark.format(cell.note) if cell.note else ""
    gap = f", {round(round(cell.summary.mean, 1) - cell.paper, 1) + 0.0:+.1f}" if cell.summary else ""  # never -0.0
    return f" ({cell.paper:.1f}{note}{gap})"


def _below(table: Table) -> list[str]:
    return [*(f"[{i}] {text}" for i, text in enumerate(table.footnotes, start=1)), *table.remarks]
