"""Samples to measure a trained model on: those its run held out, or others of known class."""

import dataclasses
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unihssl.config import READING, Settings, parse
from unihssl.data.domain import UNKNOWN, Domain, spread_rows, test_domain, unlabeled_domain
from unihssl.data.readers import is_reference, several
from unihssl.data.source import first_few
from unihssl.data.store import Store
from unihssl.errors import Setting, UserError
from unihssl.evaluation.model import Model
from unihssl.run_folder import RunFolder


class KnownSamples(NamedTuple):
    """Decoded samples of one domain, and the rows whose class is known."""

    domain: Domain
    store: Store
    rows: np.ndarray

    @property
    def labels(self) -> np.ndarray:
        return np.asarray(self.domain.labels[self.rows])


def reading(settings: Settings, knobs: Mapping[str, Any]) -> Settings:
    """The settings with other values for how sources are read; the rest was decided by training."""
    if fixed := [name for name in knobs if name not in READING]:
        raise UserError(f"{fixed[0]} cannot be set here, only how a source is read: {', '.join(READING)}")
    changed: Settings = parse(dataclasses.asdict(settings) | dict(knobs), (Settings,))[0]
    return changed


def known_samples(
    run: RunFolder,
    model: Model,
    settings: Settings,
    labeled: Any = None,
    unlabeled: Any = None,
    *,
    held_out: bool = False,
) -> dict[str, KnownSamples]:
    """By domain: the run's own held-out images, or all of the sources given.

    With `held_out` the sources given are those the run was made from (arrays, or folders that have moved), and only
    what it held out of them is taken.
    """
    own = held_out or (labeled is None and unlabeled is None and run.split.exists())
    records = run.read_split() if own else {}
    samples = {}
    for role, source in (("labeled", labeled), ("unlabeled", unlabeled)):
        if own and records[role]["test"]:
            domain = _held_out(records[role], role, model, settings, source)
        elif own and source is not None:
            raise UserError(f"{run.path}: {Setting('held_out', True)}, but nothing was held out of the {role} domain")
        elif source is not None and not own:
            domain = test_domain(source, tuple(model.classes_.tolist()), settings)
        else:
            continue
        domain, store = model.decode(domain, role)
        if run.split.exists() and not own and not isinstance(domain.items, np.ndarray):  # array rows have no names
            domain = _with_training_note(domain, run.read_split()[role]["train"])
        samples[role] = KnownSamples(domain, store, np.flatnonzero(domain.known))
    if not samples:
        sources = f"{Setting('labeled')} or {Setting('unlabeled')}"
        raise UserError(f"{run.path}: no labeled test images were held out here; give some with {sources}")
    return samples


def unknown_samples(run: RunFolder, model: Model, settings: Settings, given: Any, most: int) -> KnownSamples:
    """Some samples of an unlabeled domain without known classes: to draw, not to measure."""
    source = _source(run.read_split()["unlabeled"], "unlabeled", given)
    domain = unlabeled_domain(source, tuple(model.classes_.tolist()), settings)
    rows = spread_rows(len(domain), most)
    domain, store = model.decode(domain.keep(rows), "unlabeled")
    return KnownSamples(domain, store, np.arange(len(domain.names)))


def training_samples(run: RunFolder, role: str, model: Model, settings: Settings, given: Any, most: int) -> np.ndarray:
    """Some decoded training samples of one domain, spread over all; `given` is where its source has moved to."""
    record = run.read_split()[role]
    read_domain = test_domain if role == "labeled" else unlabeled_domain
    domain = read_domain(_source(record, role, given), tuple(model.classes_.tolist()), settings)
    rows = np.flatnonzero(np.isin(domain.names, record["train"]))
    if not len(rows):
        raise UserError(f"{domain.name}: none of the run's training samples is there; say where with {Setting(role)}")
    chosen = rows[spread_rows(len(rows), most)]
    return model.decode(domain.keep(chosen), role)[1].samples.numpy()


def training_domain(run: RunFolder, role: str, model: Model, names: list[str]) -> Domain:
    """These training samples of one domain, in this order, from where the run found them."""
    read_domain = test_domain if role == "labeled" else unlabeled_domain
    source = _source(run.read_split()[role], role, None)
    domain = read_domain(source, tuple(model.classes_.tolist()), model.settings)
    row_of = {name: row for row, name in enumerate(domain.names)}
    if gone := [name for name in names if name not in row_of]:
        raise UserError(f"{domain.name}: {len(gone)} of {len(names)} training samples are gone ({first_few(gone)})")
    return domain.keep(np.array([row_of[name] for name in names], dtype=np.int64))


def samples_to_show(run: RunFolder, role: str, model: Model, settings: Settings, given: Any, most: int) -> KnownSamples:
    """Some of what the run held out of a domain, spread over all.

    Of an unlabeled domain of which nothing was held out, training samples stand in; their classes count as unknown.
    """
    record = run.read_split()[role]
    if not record["test"] and role == "labeled":
        raise UserError(f"{record['source']}: nothing was held out of the labeled domain")
    if not record["test"]:
        shown = unknown_samples(run, model, settings, given, most)
        return shown._replace(domain=replace(shown.domain, labels=np.full(len(shown.domain), UNKNOWN)))
    domain = _held_out(record, role, model, settings, given)
    rows = spread_rows(len(domain), most)
    domain, store = model.decode(domain.keep(rows), role)
    return KnownSamples(domain, store, np.arange(len(domain)))


def held_out_domain(run: RunFolder, role: str, model: Model, settings: Settings) -> Domain | None:
    """What the run held out of one domain; None if that is nothing, or no longer where it was."""
    record = run.read_split()[role]
    there = all(is_reference(source) or Path(source).exists() for source in several(record["source"]))
    return _held_out(record, role, model, settings, None) if record["test"] and there else None


def _source(record: dict[str, Any], role: str, given: Any) -> Any:
    """The run's own source, or where it has moved to."""
    source = record["source"] if given is None else given
    parts = several(source) if isinstance(source, str) else []
    if gone := [part for part in parts if not is_reference(part) and not Path(part).exists()]:
        raise UserError(
            f"{gone[0]}: the {role} data of this run is not there; say where it is now with {Setting(role)} and "
            f"{Setting('held_out', True)}, or give other test images with {Setting(role)}"
        )
    return source


def _with_training_note(domain: Domain, trained_on: list[str]) -> Domain:
    """Note images with the names of training images; only names are compared, so they may be others."""
    same = len(set(domain.names) & set(trained_on))
    if not same:
        return domain
    note = (
        f"{domain.name}: {same} of {len(domain.names)} images are named like images that the run was trained on; if "
        f"they are the same, this is no test: {Setting('held_out', True)} takes only what the run held out"
    )
    return replace(domain, notes=(*domain.notes, note))


def _held_out(record: dict[str, Any], role: str, model: Model, settings: Settings, given: Any) -> Domain:
    source, classes = _source(record, role, given), tuple(model.classes_.tolist())
    if role == "labeled":
        domain = test_domain(source, classes, settings)
    else:  # some of its sources may have no classes
        domain = unlabeled_domain(source, classes, replace(settings, match_classes="labeled"))
    row_of = {name: i for i, name in enumerate(domain.names)}
    gone = [name for name in record["test"] if name not in row_of]
    if gone:
        renamed = "; of several sources, each must keep its folder's name" if len(several(source)) > 1 else ""
        lost = f"{len(gone)} of {len(record['test'])} test images are gone ({first_few(gone)}){renamed}"
        raise UserError(f"{domain.name}: {lost}")
    return domain.keep(np.array(sorted(row_of[name] for name in record["test"]), dtype=np.int64))
