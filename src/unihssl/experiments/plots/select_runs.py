"""Which runs to draw, and what to call them: run directories, or the finished runs below a grid's folder."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from unihssl.errors import Setting, UserError
from unihssl.experiments.results import Purpose, find_runs, read_purpose, row_name, saved_settings
from unihssl.run_folder import RunFolder


class RunFilter(NamedTuple):
    """Conditions on runs; empty or None allows any. `method` may also be a row of a table, such as `mcc:original`."""

    pair: str = ""
    method: str = ""
    seed: int | None = None

    def fits(self, run: Path) -> bool:
        if self == RunFilter():
            return True
        settings, purpose = _describe(run)
        row = row_name(settings, RunFolder(run).read_environment())
        names = ("", settings.get("method"), row, *(role.variant for role in purpose.roles))
        seeds = (None, settings.get("seed"))
        return self.pair in ("", purpose.pair) and self.method in names and self.seed in seeds


def is_run(folder: Path) -> bool:
    """Whether this is the folder of a run or of a saved model."""
    return RunFolder(folder).is_run or RunFolder(folder).model.is_file()


def select_runs(folders: Sequence[Path], conditions: RunFilter) -> list[Path]:
    """The runs that fit: of these folders those that are runs, and the finished runs below the others."""
    for folder in folders:
        if not folder.exists():
            raise UserError(f"{folder}: no such folder")
    found: dict[Path, None] = {}
    for folder in folders:
        found |= dict.fromkeys([folder] if is_run(folder) else [run.path for run in find_runs(folder)])
    runs = [run for run in found if conditions.fits(run)]
    if not runs:
        asked = [Setting(*item) for item in conditions._asdict().items() if found and item[1] not in ("", None)]
        fitting = " ".join([" with", *(f"{setting}" for setting in asked)]) if asked else ""
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


def run_title(run: Path) -> str:
    """Method, data set, pair and seed of a run; of a saved model the method."""
    folder = RunFolder(run)
    method = saved_settings(folder).get("method") if folder.is_run else folder.read_model().get("method")
    return ", ".join(filter(None, [str(method), described([run])]))


def _describe(run: Path) -> tuple[dict[str, Any], Purpose]:
    settings = saved_settings(RunFolder(run))
    return settings, read_purpose(RunFolder(run), settings)
