"""A trained model: load, save, predict."""

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unihssl import methods
from unihssl.config import Settings
from unihssl.data.domain import Domain
from unihssl.data.intensity import Window, candidates, saved_windows
from unihssl.data.label_file import class_numbers
from unihssl.data.readers import one_array
from unihssl.data.rendering import Rendering
from unihssl.data.source import Label, first_few
from unihssl.data.store import Store, fill_store
from unihssl.data.views import Views
from unihssl.errors import Setting, UserError
from unihssl.evaluation.audit import audit_answer, calibrated, risk_answer
from unihssl.evaluation.given_samples import given_domain
from unihssl.evaluation.model_card import model_card
from unihssl.evaluation.novelty import Reference
from unihssl.evaluation.predictions import NO_REFERENCE, Predictions
from unihssl.methods.base import Output
from unihssl.models.backbones import Architecture
from unihssl.models.classifier import record_features
from unihssl.run_folder import RunFolder
from unihssl.run_schema import MODEL_FORMAT
from unihssl.version import __version__

View = Callable[[Tensor], Tensor]  # stored samples to what the network takes


class Model:
    """A fitted classifier for both domains.

    Samples are a folder, image paths, images of Pillow, or an array like the one it was trained on: images
    (N, H, W[, 3]) or vectors (N, D).

    >>> model = unihssl.load("runs/first")
    >>> model.predict("new_scans")
    array(['benign', 'malignant', 'benign'], dtype='<U9')
    """

    def __init__(
        self,
        method: str,
        params: Any,
        network: nn.Module,
        architecture: Architecture,
        classes: Sequence[Label],
        stored_size: tuple[int, int],
        device: torch.device | str = "cpu",
        windows: Mapping[str, Mapping[str, Window]] | None = None,
    ) -> None:
        """`windows` are those of images of more than 8 bits, by domain (labeled, unlabeled) and kind of storage."""
        self.windows = {role: dict(found) for role, found in (windows or {}).items() if found}
        self.method, self.params, self.architecture = method, params, architecture
        self.classes_ = np.array(classes)
        self.stored_size = stored_size
        self.views = Views(architecture.side, architecture.mean, architecture.std)
        self.network = network.to(device).eval()
        self.device = torch.device(device)
        self.result: dict[str, Any] = {}
        self.audited: dict[str, Any] | None = None  # the answers of the last audit
        self.reference: Reference | None = None  # what novelty is measured from
        self.settings = Settings()  # of its run: how CSV files are read
        self.folder: Path | None = None  # of the run that trained it, if that was kept
        self.version = __version__  # of the package that trained it; empty where not recorded
        self.data: dict[str, str] = {}  # content keys of the samples of both domains; empty where not recorded

    def __repr__(self) -> str:
        return f"<unihssl.Model: {self.method} on {self.architecture.name}, {len(self.classes_)} classes>"

    def predict(self, samples: Any) -> np.ndarray:
        """The class of each sample (N,), as named in training."""
        return self._of_all(samples).classes

    def predict_proba(self, samples: Any) -> np.ndarray:
        """Class probabilities (N, C), columns in the order of `classes_`."""
        return self.probabilities(self._of_all(samples))

    def predict_domain(self, samples: Any) -> np.ndarray:
        """The probability that each sample comes from the unlabeled domain (N,)."""
        domain = self._of_all(samples).unlabeled_domain
        if domain is None:
            raise UserError(f"method {self.method} does not tell the domains apart")
        return domain

    def novelty(self, samples: Any) -> np.ndarray:
        """How far each sample lies from all that the model was trained on: percentiles (N,), 0 to 100.

        >>> model.novelty("new_scans")
        array([12.5, 99.9, 47.1])

        99 means: the nearest training sample, of either domain, is farther away than for 99% of the training samples
        themselves, in angles between features.
        """
        found = self._of_all(samples).novelty
        if found is None:
            raise UserError(NO_REFERENCE)
        return found

    def score(self, samples: Any, labels: Any) -> float:
        """The share of samples whose predicted class is their label (N,)."""
        classes = self.predict(samples)
        truth = _labels_of(classes, labels)
        return float(np.mean(classes == self.classes_[class_numbers(truth.tolist(), self.classes_.tolist(), "labels")]))

    def probabilities(self, predictions: Predictions) -> np.ndarray:
        """Class probabilities (N, C) by the rule that this model uses."""
        return predictions.probabilities[self.rule]

    @property
    def rule(self) -> str:
        """How this model turns its outputs into a class; most methods have one rule only."""
        return str(getattr(self.params, "prediction", "argmax"))

    def audit(self, samples: Any, labels: Any, max_risk: float = 0.05, domain: Any = None) -> dict[str, Any]:
        """How good the model is on a domain, from the labels (N,) of a random sample of it.

        Tables of predictions are calibrated by the answer from then on, `predict_proba` is not; `save` keeps it.

        >>> model.audit(x[drawn], y)["accuracy"]
        {'value': 0.81, 'low': 0.719, 'high': 0.882, 'n': 100}

        The samples must be drawn at random from those whose labels the model was not trained on; files that it was
        trained on are refused, as far as the run's folder is there to say which these are. `domain` are other
        samples of it, all at best: they place the thresholds of `risk_threshold`. Without, the sample itself does, and
        the bound on the risk then supposes that more confident answers are right more often.
        """
        from unihssl.evaluation.audit_run import refuse_images, trained_files  # it imports this module

        if self.folder and (run := RunFolder(self.folder)).split.exists():
            items, trained = given_domain(samples, self).items, trained_files(run, self)
            files = [] if isinstance(items, np.ndarray) else items
            refuse_images([str(path) for path in files if Path(path).resolve() in trained], "the samples")
        probabilities = self.predict_proba(samples)
        truth = _labels_of(probabilities, labels)
        numbers = class_numbers(truth.tolist(), self.classes_.tolist(), "labels")
        reference = probabilities if domain is None else self.predict_proba(domain)
        self.audited = audit_answer(probabilities, numbers, self.classes_.tolist(), reference.max(1), max_risk)
        return self.audited

    def suggest(self, samples: Any, n: int = 50, *, by: str = "clusters", seed: int = 0) -> tuple[str, ...]:
        """Names of the `n` samples most worth labeling, best first: paths, or row numbers of an array.

        >>> names = model.suggest("scans_b", 50)
        >>> unihssl.fit("scans_a", "scans_b", target_labels=dict(zip(names, my_labels)))

        `by` is clusters, margin or random. Samples that are labeled already should not be among those given.
        """
        from unihssl.evaluation.suggest_run import suggest  # it imports this module

        return suggest(self, given_domain(samples, self), n, by=by, seed=seed).names

    def calibrated(self, predictions: Predictions) -> np.ndarray:
        """Class probabilities (N, C), calibrated by the last audit; as they are if there was none."""
        raw = self.probabilities(predictions)
        return raw if self.audited is None else calibrated(self.audited, raw, predictions.unlabeled_domain)

    def abstains(self, predictions: Predictions, max_risk: float | None = None) -> np.ndarray:
        """(N,) bool: where to give no answer, so that in the audited domain at most `max_risk` of the rest are wrong.

        `max_risk` is the last audit's by default. Whether the audit can show it is in `risk_answer`: if not, all are.
        """
        if self.audited is None:
            raise UserError(f"{Setting('max_risk')} needs an audit of this model: labels of a random sample")
        threshold = (self.audited if max_risk is None else risk_answer(self.audited, max_risk))["threshold"]
        least = np.inf if threshold is None else threshold
        return np.asarray(self.probabilities(predictions).max(1) < least)

    def predictions(self, samples: Any) -> Predictions:
        """Classes, probabilities and domain with the samples' names; unreadable images are left out and noted."""
        domain, store = self.decode(given_domain(samples, self))
        return dataclasses.replace(self.predict_store(store), names=domain.names, notes=domain.notes)

    def decode(self, domain: Domain, role: str = "") -> tuple[Domain, Store]:
        """Decode samples as the model was trained to see them; `role` (labeled, unlabeled) if it is known."""
        return fill_store(domain, self.rendering(role))

    def rendering(self, role: str = "") -> Rendering:
        """How images of a domain are decoded.

        If it is not known, an image of more than 8 bits gets the window of the domain that stores images as it does.
        """
        found = [self.windows.get(role, {})] if role else list(self.windows.values())
        return Rendering(self.stored_size, self.architecture.channels, candidates(found))

    def _of_all(self, samples: Any) -> Predictions:
        """Predictions for all samples. An unreadable file is an error if it was named, else a warning."""
        found = self.predictions(samples)
        named = samples if isinstance(samples, list | tuple) else []
        files = {str(Path(s)) for s in named if isinstance(s, str | Path) and not Path(s).is_dir()}
        if lost := files - set(found.names):
            raise UserError(f"{first_few(sorted(lost))}: cannot be read; predictions() leaves such files out")
        for note in found.notes:
            warnings.warn(note, stacklevel=3)
        return found

    @torch.inference_mode()
    def predict_store(
        self,
        store: Store,
        rows: np.ndarray | None = None,
        batch: int = 256,
        *,
        view: View | None = None,
        keep_features: bool = False,
    ) -> Predictions:
        """Predictions for rows of a decoded store (all by default), as seen in a view (the test view by default)."""
        chosen = torch.arange(len(store)) if rows is None else torch.from_numpy(rows)
        outputs: list[Output] = []
        features: list[Tensor] = []
        novelty: list[Tensor] = []
        for part in torch.split(chosen, batch):
            with record_features(self.network) as seen:
                outputs.append(self._output(store.take(part.to(store.samples.device)), view or self.views.test))
            features += seen if keep_features else []
            novelty += [self.reference.novelty(x) for x in seen] if self.reference else []
        rules = outputs[0].probabilities
        probabilities = {rule: torch.cat([o.probabilities[rule] for o in outputs]).cpu().numpy() for rule in rules}
        classes = self.classes_[probabilities[self.rule].argmax(1)]
        domain = [o.unlabeled_domain for o in outputs if o.unlabeled_domain is not None]
        return Predictions(
            tuple(map(str, chosen.tolist())),
            classes,
            probabilities,
            _joined(domain),
            outputs[0].oracle,
            novelty=_joined(novelty),
            features=_joined(features),
            model=self,
        )

    def report(
        self, path: str | Path | None = None, *, images: bool = True, labeled: Any = None, unlabeled: Any = None
    ) -> Path:
        """Write the report of the run that trained this model, one HTML file; by default into the run's folder.

        >>> unihssl.load("runs/first").report("first.html")
        PosixPath('first.html')

        Without `images` nothing of any sample is shown. `labeled` and `unlabeled` are the run's own sources, if they
        have moved or were arrays.
        """
        from unihssl.report.page import write_report  # the one import that points upwards: a method of the public class

        if self.folder is None:
            raise UserError(
                f"a report needs the folder of the run, which was not kept: train with {Setting('out', 'FOLDER')}"
            )
        return write_report(
            self.folder, path, images=images, labeled=labeled, unlabeled=unlabeled, device=str(self.device)
        )

    def save(self, path: str | Path) -> None:
        """Write the model into a folder: weights, description, results, settings, features for `novelty`, a model card.

        >>> model.save("model")
        >>> unihssl.load("model").result == model.result
        True
        """
        folder = RunFolder(path)
        is_own = self.folder is not None and folder.path.resolve() == self.folder.resolve()
        others = folder.path.is_dir() and not folder.model.exists() and any(folder.path.glob("[!.]*"))
        if others or (folder.is_run and not is_own):
            what = "a run's folder" if folder.is_run else "a folder of other files"
            raise UserError(f"{path} is {what}: save the model into a folder of its own")
        folder.write_audit(None)  # that of a model which was there before
        self.write(folder, {"result": self.result, "settings": dataclasses.asdict(self.settings)})
        if self.audited is not None:
            folder.write_audit(self.audited)
        folder.write_card(model_card(self))

    def write(self, folder: RunFolder, more: dict[str, Any] | None = None) -> None:
        """Write the model alone, as a run does, whose folder has the rest."""
        description = {
            "format": MODEL_FORMAT,
            "method": self.method,
            "params": dataclasses.asdict(self.params),
            "architecture": dataclasses.asdict(self.architecture),
            "classes": self.classes_.tolist(),
            "stored_size": self.stored_size,
            "data": self.data,
            "version": self.version,
        }
        if self.windows:
            description["windows"] = {role: saved_windows(found) for role, found in self.windows.items()}
        features = self.reference.tensors() if self.reference else None
        folder.write_model(description | (more or {}), self.network.state_dict(), features)

    def export(self, path: str | Path) -> None:
        """Write one file that answers without this package: ONNX, or with the suffix .pt2 for `torch.export.load`.

        >>> model.export("model.onnx")
        """
        from unihssl.evaluation.export_model import export_model

        export_model(self, Path(path))

    def _output(self, samples: Tensor, view: View) -> Output:
        x = view(samples.to(self.device))
        return methods.get(self.method).output(self.network, x, self.params)


def _labels_of(samples: np.ndarray, labels: Any) -> np.ndarray:
    """The labels (N,) as an array, one for each sample."""
    found = one_array(labels, "the labels")
    if found.ndim != 1 or len(found) != len(samples):
        count = str(len(found)) if found.ndim == 1 else f"an array {found.shape} of"
        raise UserError(f"{len(samples)} samples but {count} labels")
    return found


def _joined(parts: list[Tensor]) -> np.ndarray | None:
    return torch.cat(parts).cpu().numpy() if parts else None
