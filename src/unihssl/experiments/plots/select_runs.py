"""Which runs to draw, and what to call them: run directories, or the finished runs below a grid's folder."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from unihssl.errors import Setting, UserError
from unihssl.experiments.results import Purpose, find_runs, read_purpose, saved_settings
from unihssl.run_folder import RunFolder


class Wanted(NamedTuple):
    """Conditions on runs; empty or None allows any. `method` may also be a row of a table, such as `mcc:original`."""

    pair: str = ""
    method: str = ""
    seed: int | None = None

    def fits(self, run: Path) -> bool:
        if self == Wanted():
            return True
        settings, purpose = _describe(run)
        names = (settings.get("method"), *(role.variant for role in purpose.roles))
        return (
            self.pair in ("", purpose.pair)
            and (not self.method or self.method in names)
            and self.seed in (None, settings.get("seed"))
        )


def is_run(folder: Path) -> bool:
    """Whether this is the folder of a run or of a saved model."""
    return RunFolder(folder).is_run or RunFolder(folder).model.is_file()


def chosen_runs(folders: Sequence[Path], wanted: Wanted) -> list[Path]:
    """The runs among these folders, and the finished runs below the others, that fit."""
    for folder in folders:
        if not folder.exists():
            raise UserError(f"{folder}: no such folder")
    found: dict[Path, None] = {}
    for folder in folders:
        found |= dict.fromkeys([folder] if is_run(folder) else [run.path for run in find_runs(folder)])
    runs = [run for run in found if wanted.fits(run)]
    if not runs:
        wanted_values = wanted._asdict().items() if found else ()
        conditions = [f"{Setting(name, value)}" for name, value in wanted_values if value not in ("", None)]
        fitting = " ".join([" with", *conditions]) if conditions else ""
        named = ", ".join(map(str, folders))
        raise UserError(f"{named}: not a run directory, nor is there a finished run{fitting} below")
    return runs


def figure_names(runs: Iterable[Path]) -> dict[Path, str]:
    """Run -> PAIR-ROW-SEED, with the folder's name where several would be called the same."""
    names = {}
    for run in runs:
        settings, purpose = _describe(run)
        row = purpose.roles[0].variant if purpose.roles else settings.get("method")
        names[run] = f"{purpose.pair}-{row}-{settings.get('seed')}".translate(str.maketrans("/: ", "--_"))
    counts = Counter(names.values())
    longer = {run: f"{name}-{run.parent.name}-{run.name}" for run, name in names.items()}
    return {run: name if counts[name] == 1 else longer[run] for run, name in names.items()}


def described(runs: Sequence[Path]) -> str:
    """Data set and pair, if all runs share them, and seeds: `pacs P/A, seeds 0, 1`."""
    known = [_describe(run) for run in runs if RunFolder(run).is_run]
    places = {f"{purpose.dataset} {purpose.pair}".strip() for _, purpose in known}
    seeds = sorted({int(settings["seed"]) for settings, _ in known if "seed" in settings})
    parts = list(places) if len(places) == 1 else []
    parts += [f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"] if seeds else []
    return ", ".join(parts)


def _describe(run: Path) -> tuple[dict[str, Any], Purpose]:
    settings = saved_settings(RunFolder(run))
    return settings, read_purpose(RunFolder(run), settings)
