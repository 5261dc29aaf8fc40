"""Which runs to draw: run directories, and the finished runs below a grid's folder; and how they are called."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from unihssl.errors import UserError
from unihssl.evaluation.model import DESCRIPTION
from unihssl.experiments.results import read_purpose
from unihssl.training.run_directory import CONFIG, RESULT, read_config


class Wanted(NamedTuple):
    """What runs must be of; empty or None: of any."""

    pair: str = ""
    method: str = ""  # or the row of its table
    seed: int | None = None

    def __str__(self) -> str:
        named = {"--pair": self.pair, "--method": self.method, "--seed": self.seed}
        return " ".join(f"{option} {value}" for option, value in named.items() if value not in ("", None))

    def fits(self, run: Path) -> bool:
        if self == Wanted():
            return True
        settings = read_config(run)
        _, pair, roles = read_purpose(run, settings)
        names = (settings.get("method"), *(variant for _, variant in roles))
        return (
            self.pair in ("", pair)
            and (not self.method or self.method in names)
            and self.seed in (None, settings.get("seed"))
        )


def is_run(folder: Path) -> bool:
    """A run's folder, or one that a model was saved to."""
    return (folder / CONFIG).is_file() or (folder / DESCRIPTION).is_file()


def chosen_runs(folders: Sequence[Path], wanted: Wanted) -> list[Path]:
    """Of each folder: itself if it is a run's, else the finished runs below it; folders without any are skipped."""
    for folder in folders:
        if not folder.exists():
            raise UserError(f"{folder}: no such folder")
    found = dict.fromkeys(run for folder in folders for run in ([folder] if is_run(folder) else _below(folder)))
    runs = [run for run in found if wanted.fits(run)]
    if not runs:
        named, fitting = ", ".join(map(str, folders)), f" with {wanted}" if found else ""
        raise UserError(f"{named}: not a run directory, nor is there a finished run{fitting} below")
    return runs


def figure_names(runs: Iterable[Path]) -> dict[Path, str]:
    """PAIR-ROW-SEED of each run, by its row of a table; the folder too where several would be called the same."""
    names = {}
    for run in runs:
        settings = read_config(run)
        _, pair, roles = read_purpose(run, settings)
        row = roles[0][1] if roles else settings.get("method")
        names[run] = f"{pair}-{row}-{settings.get('seed')}".translate(str.maketrans("/: ", "--_"))
    counts = Counter(names.values())
    longer = {run: f"{name}-{run.parent.name}-{run.name}" for run, name in names.items()}
    return {run: name if counts[name] == 1 else longer[run] for run, name in names.items()}


def described(runs: Sequence[Path]) -> str:
    """Data set, pair and seeds of these runs; of several data sets or pairs nothing is said of them."""
    configs = [(run, read_config(run)) for run in runs if (run / CONFIG).is_file()]
    places = {" ".join(filter(None, read_purpose(run, settings)[:2])) for run, settings in configs}
    seeds = sorted({int(settings["seed"]) for _, settings in configs if "seed" in settings})
    said = list(places) if len(places) == 1 else []
    said += [f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"] if seeds else []
    return ", ".join(said)


def _below(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.rglob(RESULT) if (path.parent / CONFIG).is_file())
