"""The README.md of a saved model: what it is, how good it was, how to use it, with the model hub's metadata."""

from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from unihssl.evaluation.model import Model

PARTS = {"labeled": "labeled domain", "unlabeled": "unlabeled domain", "pooled": "both, pooled"}


def model_card(model: "Model") -> str:
    """Markdown with a YAML header, as model hubs read it."""
    kind = "tabular-classification" if model.architecture.vector_size else "image-classification"
    header: dict[str, Any] = {
        "library_name": "unihssl",
        "pipeline_tag": kind,
        "tags": list(dict.fromkeys(["unihssl", "domain-adaptation", "semi-supervised-learning", model.method])),
    }
    measured = {part: model.result[part] for part in PARTS if part in model.result}
    if measured:
        header["model-index"] = [
            {"name": model.method, "results": [_result(kind, p, of) for p, of in measured.items()]}
        ]
    classes = ", ".join(map(str, model.classes_))
    lines = [
        f"---\n{yaml.safe_dump(header, sort_keys=False, allow_unicode=True)}---\n",
        f"# {model.method} on {model.architecture.name}\n",
        "One classifier for two domains: trained on labeled samples of one and unlabeled samples of the other.\n",
        f"Classes: {classes}\n",
        '```python\nimport unihssl\n\nmodel = unihssl.load("this/folder")\nmodel.predict("new_images")\n```\n',
        "## Results on held-out samples\n",
        *(["| | samples | accuracy | macro F1 |\n|---|---|---|---|"] if measured else ["None were held out."]),
        *(
            f"| {PARTS[part]} | {of['n']} | {100 * of['accuracy']:.1f}% | {100 * of['macro_f1']:.1f}% |"
            for part, of in measured.items()
        ),
        *([] if "unlabeled" in measured else ["\nThe accuracy on the unlabeled domain is not known."]),
        *(f"\nWarning: {warning}" for warning in model.result.get("warnings", ())),
        "\nConfidences are "
        + ("calibrated by an audit." if model.audited else "not calibrated for the unlabeled domain."),
    ]
    return "\n".join(lines) + "\n"


def _result(kind: str, part: str, of: dict[str, Any]) -> dict[str, Any]:
    metrics = [
        {"type": name, "value": round(of[key], 4)} for name, key in (("accuracy", "accuracy"), ("f1", "macro_f1"))
    ]
    data = {"name": f"held-out samples, {PARTS[part]}", "type": "own"}
    return {"task": {"type": kind}, "dataset": data, "metrics": metrics}
