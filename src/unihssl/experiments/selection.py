"""Choosing among finished runs of one pair of domains without any label of the unlabeled one."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unihssl.data.domain import spread_rows
from unihssl.data.source import did_you_mean, first_few
from unihssl.data.store import Store
from unihssl.errors import UserError
from unihssl.evaluation.audit_run import audited_domain
from unihssl.evaluation.load import load_model
from unihssl.evaluation.model import Model
from unihssl.evaluation.validators import ensemble_agreement, label_free_scores, mean_rank
from unihssl.experiments.results import read_all
from unihssl.pipeline.settings import settings_of
from unihssl.plain_files import as_path
from unihssl.run_folder import RunFolder

SAMPLES = 2000  # unlabeled training images, spread over all, that runs are compared on
FEWEST = 20  # with fewer images in common the order would be chance
VALIDATOR = "mean_rank"
COMBINED = ("ensemble", "corr_c", "class_ami")  # the scores whose ranks it averages


class Measured(NamedTuple):
    """How well the default chooses: points below the best run on the unlabeled test part, mean over pairs."""

    regret: float
    random: float
    worst: float
    pairs: int


# Over the pairs that had no part in choosing the validator: results/trust.md, "Select".
MEASURED = Measured(regret=2.0, random=9.8, worst=26.0, pairs=10)


@dataclass(frozen=True)
class Candidate:
    """One run and its scores by validator; higher is better. `name` tells it from the other runs."""

    run: Path
    name: str
    seed: int
    scores: dict[str, float]
    warnings: tuple[str, ...] = ()


def select(
    runs: str | Path | Sequence[str | Path], by: str = VALIDATOR, *, unlabeled: Any = None, device: str = "auto"
) -> list[Candidate]:
    """Rank finished runs of one pair of domains, best first, by their predictions on unlabeled training images.

    >>> unihssl.select(["runs/mcc", "runs/unihssl", "runs/fixmatch"])[0].run
    PosixPath('runs/unihssl')

    `runs` are folders of runs, or of folders of them. No label of the unlabeled domain is used, and no test image.
    `unlabeled` says where that domain is now. `by` names another of the scores.
    """
    given = [runs] if isinstance(runs, str | Path) else runs
    if not isinstance(given, Iterable):
        raise UserError(f"runs must be a list of folders, got {type(runs).__name__}")
    records = list({record.folder: record for record in read_all([as_path(run, "a run") for run in given])}.values())
    if len(records) < 2:
        raise UserError(f"{records[0].folder}: this is one run only; choosing needs two or more")
    folders = [RunFolder(record.folder) for record in records]
    scores = score_runs(folders, shared_images(folders), unlabeled, device)
    if by not in scores[0]:
        raise UserError(f"no score '{by}'; {did_you_mean(by, scores[0])}there are {', '.join(scores[0])}")
    found = [
        Candidate(record.folder, record.label, record.seed, of_run, tuple(record.result.get("warnings", ())))
        for record, of_run in zip(records, scores, strict=True)
    ]
    return sorted(found, key=lambda candidate: -candidate.scores[by])


def shared_images(folders: Sequence[RunFolder]) -> list[str]:
    """The unlabeled images, by name, that trained every run without a label; runs of different data are refused."""
    splits = [folder.read_split() for folder in folders]
    for folder, split in zip(folders, splits, strict=True):
        for role in ("labeled", "unlabeled"):
            if _samples(split[role]) != _samples(splits[0][role]):
                sources = " and ".join(str(s[role]["source"]) for s in (splits[0], split))
                raise UserError(
                    f"{folders[0].path} and {folder.path}: runs of different data cannot be compared; their {role} "
                    f"domains differ ({sources})"
                )
    trained = [set(split["unlabeled"]["train"]) - set(split["unlabeled"].get("target_labels", ())) for split in splits]
    shared = set.intersection(*trained)
    if len(shared) < FEWEST:
        raise UserError(
            f"these runs have {len(shared)} unlabeled training images in common, too few to compare them on; choose "
            "among fewer seeds"
        )
    return [name for name in splits[0]["unlabeled"]["train"] if name in shared]


def score_runs(
    folders: Sequence[RunFolder], images: Sequence[str], unlabeled: Any = None, device: str = "auto"
) -> list[dict[str, float]]:
    """Every validator's score of each run, from some of these images of the unlabeled domain."""
    chosen = [images[i] for i in spread_rows(len(images), SAMPLES)]
    stores: dict[str, Store] = {}  # decoded once for all models that see images alike
    probabilities, scores, classes = [], [], set()
    for folder in folders:
        model = load_model(folder.path, device)
        classes.add(tuple(model.classes_.tolist()))
        if len(classes) > 1:
            raise UserError(f"{folders[0].path} and {folder.path}: runs of different classes cannot be compared")
        alike = f"{model.stored_size} {model.architecture.channels} {model.windows}"
        if alike not in stores:
            stores[alike] = decode_images(folder, model, chosen, unlabeled)
        found = model.predict_store(stores[alike], keep_features=True)
        probabilities.append(model.probabilities(found))
        scores.append(label_free_scores(found.probabilities, model.rule, found.features))
    for of_run, agreement in zip(scores, ensemble_agreement(probabilities), strict=True):
        of_run["ensemble"] = agreement
    for of_run, rank in zip(scores, mean_rank(scores, COMBINED), strict=True):
        of_run["mean_rank"] = rank
    return scores


def decode_images(folder: RunFolder, model: Model, images: Sequence[str], unlabeled: Any = None) -> Store:
    """Images of a run's unlabeled domain, by name, as its model sees them."""
    domain = audited_domain(folder, model, settings_of(folder), unlabeled)
    row_of = {name: row for row, name in enumerate(domain.names)}
    gone = [name for name in images if name not in row_of]
    if gone:
        raise UserError(f"{domain.name}: {len(gone)} of {len(images)} training images are gone ({first_few(gone)})")
    return model.decode(domain.keep(np.array([row_of[name] for name in images])), "unlabeled")[1]


def _samples(record: Mapping[str, Any]) -> tuple[str, frozenset[str]]:
    """What tells one domain from another: where it is, and the names of its samples."""
    parts = (record.get(part, ()) for part in ("train", "test", "unused"))
    return str(record["source"]), frozenset(name for part in parts for name in part)
