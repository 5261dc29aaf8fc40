"""The paper's experiments as the runs they take: every method, every part left out, every value of a knob."""

from collections.abc import Mapping, Sequence
from typing import Any

from unihssl.config import Settings, changes_result, knob_fields
from unihssl.errors import Setting, UserError
from unihssl.experiments.paper import METHOD, UNIHSSL
from unihssl.experiments.protocol import Protocol
from unihssl.experiments.results import ABLATION, BENCHMARK, OF_ROBUST, SENSITIVITY, Role
from unihssl.experiments.runner import Run
from unihssl.methods.recipe import BACKBONE_KNOBS, all_knobs, resolve
from unihssl.methods.unihssl_params import ROBUST, UniHSSLParams

# The paper's six variants (Table 6), by their names there.
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    UNIHSSL: {},
    "w/o WMA": {"pseudo_update": "previous"},
    "w/o L_cl": {"lambda_cl": 0.0},
    "w/o L_pl": {"lambda_pl": 0.0},
    "w/o L_pa": {"lambda_pa": 0.0},
    "w/o L_Mixup": {"lambda_mixup": 0.0},
    "w/o Prog. Mixup": {"mixup_schedule": "simple"},
}

_KNOBS = knob_fields(Settings, UniHSSLParams)
_LEFT_OUT = {f"robust w/o {name}": {"preset": "robust", name: _KNOBS[name][0].default} for name in ROBUST}
_ADDED = {f"paper + {name}": {"preset": "paper", name: value} for name, value in ROBUST.items()}

ABLATIONS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "paper": {variant: {"preset": "paper", **knobs} for variant, knobs in VARIANTS.items()},
    "robust": {"robust": {"preset": "robust"}, **_LEFT_OUT, "paper": {"preset": "paper"}, **_ADDED},
}

# The four knobs that the paper varies. Its text names no values: these lie around its own choices.
KNOB_VALUES: Mapping[str, tuple[float, ...]] = {
    "lambda_pa": (0.0001, 0.001, 0.01, 0.1, 1.0),
    "lambda_pl": (0.01, 0.1, 0.5, 1.0, 2.0, 10.0),
    "lambda_mixup": (0.01, 0.1, 0.5, 1.0, 2.0, 10.0),
    "beta": (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.99),
}


def benchmark_runs(protocol: Protocol, pairs: Sequence[str], rows: Sequence[str], seeds: int) -> list[Run]:
    """Every row (`method` or `method:preset`) on every pair with seeds 0, 1, ..."""
    protocol.check_asked(rows)
    return [
        protocol.run(pair, row, seed, Role(BENCHMARK, row)) for seed in range(seeds) for pair in pairs for row in rows
    ]


def ablation_runs(protocol: Protocol, pairs: Sequence[str], seeds: int, of: str = "paper") -> list[Run]:
    """`of="paper"`: the paper's preset, whole and with each part left out.

    `of="robust"`: our preset with each of its knobs left out, and the paper's preset with each of them added.
    """
    if of not in ABLATIONS:
        raise UserError(f"{Setting('of', of)}: there are {', '.join(ABLATIONS)}")
    settings = resolve(protocol.knobs(METHOD))[0]
    # A small encoder overrides some knobs of the preset: leaving those out would change nothing.
    overridden = BACKBONE_KNOBS.get(settings.backbone, {}).keys()
    variants = {name: knobs for name, knobs in ABLATIONS[of].items() if not overridden & (knobs.keys() - {"preset"})}
    varied = [name for knobs in variants.values() for name in knobs if name in protocol.asked]
    if varied:
        raise UserError(
            f"{Setting(varied[0])}: the ablation varies it; leave it out, or study it alone in a sensitivity study"
        )
    protocol.check_asked([METHOD])
    experiment = ABLATION if of == "paper" else OF_ROBUST
    # The features of a frozen backbone: one number of views for all, whatever the preset.
    is_open = settings.train == "head" and "feature_views" not in protocol.asked
    views = {"feature_views": Settings.feature_views} if is_open else {}
    return [
        protocol.run(pair, METHOD, seed, Role(experiment, variant), **knobs, **views)
        for seed in range(seeds)
        for pair in pairs
        for variant, knobs in variants.items()
    ]


def sensitivity_values(knob: str, values: str) -> Mapping[str, Sequence[Any]]:
    """A knob and its values, given as text with commas; without either, the paper's four knobs.

    >>> sensitivity_values("lr", "0.1,0.2")
    {'lr': ['0.1', '0.2']}
    """
    if not knob and not values:
        return KNOB_VALUES
    if not knob:
        raise UserError(f"{Setting('values')} needs a {Setting('knob')}")
    if not values and knob not in KNOB_VALUES:
        raise UserError(f"{Setting('knob', knob)} needs {Setting('values')}, such as 0.1,0.2")
    return {knob: values.split(",") if values else KNOB_VALUES[knob]}


def sensitivity_runs(
    protocol: Protocol, pairs: Sequence[str], seeds: int, values: Mapping[str, Sequence[Any]], row: str = UNIHSSL
) -> list[Run]:
    """Each knob at each of its values, all others unchanged. The variant of a run is `knob=value`."""
    protocol.check_asked([row])
    for knob in values:
        if not changes_result(knob) or knob in ("method", "seed"):
            raise UserError(f"{Setting('knob', knob)}: it does not change what is learnt, or has its own option")
        if knob in protocol.asked:
            raise UserError(f"{Setting(knob)}: the study varies it; leave one of them out")
    parsed = [  # 0.10 and 1e-1 are one value
        (knob, all_knobs(*resolve(protocol.knobs(row) | {knob: value}))[knob])
        for knob, knob_values in values.items()
        for value in knob_values
    ]
    return [
        protocol.run(pair, row, seed, Role(SENSITIVITY, f"{knob}={value}"), **{knob: value})
        for seed in range(seeds)
        for pair in pairs
        for knob, value in parsed
    ]
