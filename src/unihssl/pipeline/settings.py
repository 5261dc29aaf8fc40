"""The settings of a run that exists: as it saved them, and with what was asked for when it is resumed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unihssl import methods
from unihssl.config import Settings, changes_result, parse, parse_saved
from unihssl.data.readers import several
from unihssl.data.source import SEPARATOR
from unihssl.errors import Setting, UserError
from unihssl.methods.recipe import absolute, all_knobs, with_full_paths
from unihssl.plain_files import is_folder
from unihssl.run_folder import RunFolder


def settings_of(folder: RunFolder) -> Settings:
    """The settings a run was made with; the defaults for a saved model, which has none."""
    if not folder.is_run:
        return Settings()
    settings: Settings = parse_saved(folder.read_config(), (Settings,), str(folder.config))[0]
    return settings


def resumed_settings(folder: RunFolder, asked: Mapping[str, Any]) -> tuple[Settings, Any]:
    """The run's own settings; those given again must agree unless they do not change the result."""
    saved = folder.read_config()
    method = methods.get(str(saved.get("method", Settings.method)))
    kinds = (Settings, method.Params)
    before = all_knobs(*parse_saved(saved, kinds, str(folder.config)))
    elsewhere = f"for others choose another {Setting('out')}"
    for name in ("method", "preset"):  # first: other settings may not be those of another method
        if asked.get(name) not in (None, "", before[name]):
            raise UserError(
                f"{folder.path}: a resumed run keeps its settings, but {name} was {before[name]}; {elsewhere}"
            )
    settings, params = parse(before | {name: value for name, value in asked.items() if name != "preset"}, kinds)
    settings = with_full_paths(settings)
    changed = [
        f"{name} was {before[name]}, now {value}"
        for name, value in all_knobs(settings, params).items()
        if changes_result(name, *kinds) and before[name] != value
    ]
    if changed:
        raise UserError(f"{folder.path}: a resumed run keeps its settings, but {'; '.join(changed)}; {elsewhere}")
    return settings, params


def given_or_saved(source: Any, saved: str) -> Any:
    """The source a resumed run was given again, else the one it began with."""
    return saved if source is None or (isinstance(source, str) and not source) else source


def refuse_inside(folder: RunFolder, *sources: Any) -> None:
    """Stop if a run would be in a folder of images: its plots would be among the images of the next run."""
    for source in (part for given in sources for part in several(given) if isinstance(part, str | Path)):
        if is_folder(Path(source)) and folder.path.resolve().is_relative_to(Path(source).resolve()):
            raise UserError(f"{folder.path}: is inside {source}, a folder of images: choose another {Setting('out')}")


def refuse_other_sources(folder: RunFolder, settings: Settings, **sources: Any) -> None:
    """Stop if a finished run is asked for with other data than its own, which is still where it was."""
    for role, source in sources.items():
        own, given = getattr(settings, role), several(source)
        if not all(isinstance(part, str | Path) for part in given) or not all(Path(p).exists() for p in several(own)):
            continue
        if SEPARATOR.join(absolute(str(part)) for part in given) != own:
            raise UserError(
                f"{folder.path}: this run has finished, and its {role} data was {own}: choose another {Setting('out')}"
            )
