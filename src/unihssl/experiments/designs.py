"""The paper's experiments, each as the runs it takes: every method, every part left out, every value of a knob."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from unihssl.api import resolve
from unihssl.config import Settings, knob_fields
from unihssl.errors import UserError
from unihssl.experiments.paper import METHOD, UNIHSSL
from unihssl.experiments.protocol import Protocol
from unihssl.experiments.results import ABLATION, BENCHMARK, OF_ROBUST, SENSITIVITY
from unihssl.experiments.runner import Role, Run
from unihssl.methods.presets import RECIPES, ROBUST
from unihssl.methods.unihssl_params import UniHSSLParams
from unihssl.training.run_directory import FREE_TO_CHANGE

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

# What --of names: the variants of the paper's recipe; ours without each ingredient, and the paper's with each alone.
ABLATIONS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "paper": {variant: {"preset": "paper", **knobs} for variant, knobs in VARIANTS.items()},
    "robust": {"robust": {"preset": "robust"}, **_LEFT_OUT, "paper": {"preset": "paper"}, **_ADDED},
}

# The paper varies these four, but prints no values: its figure is lost. These lie around its choices.
KNOB_VALUES: Mapping[str, tuple[float, ...]] = {
    "lambda_pa": (0.0001, 0.001, 0.01, 0.1, 1.0),
    "lambda_pl": (0.01, 0.1, 0.5, 1.0, 2.0, 10.0),
    "lambda_mixup": (0.01, 0.1, 0.5, 1.0, 2.0, 10.0),
    "beta": (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.99),
}


def benchmark_runs(protocol: Protocol, pairs: Sequence[str], names: Sequence[str], seeds: int) -> list[Run]:
    protocol.check_asked(names)
    return [
        protocol.run(pair, name, seed, Role(BENCHMARK, name))
        for seed in range(seeds)
        for pair in pairs
        for name in names
    ]


def ablation_runs(protocol: Protocol, pairs: Sequence[str], seeds: int, of: str = "paper") -> list[Run]:
    """The paper's variants of its recipe, or what each ingredient of ours is good for."""
    if of not in ABLATIONS:
        raise UserError(f"--of {of}: there are {', '.join(ABLATIONS)}")
    fixed = RECIPES.get(str(resolve(protocol.knobs(METHOD))[0].backbone), {})  # of small encoders: no ingredient there
    variants = {name: knobs for name, knobs in ABLATIONS[of].items() if not fixed.keys() & (knobs.keys() - {"preset"})}
    clash = [name for knobs in variants.values() for name in knobs if name in protocol.asked]
    if clash:
        raise UserError(f"--set {clash[0]}: the ablation varies it; leave it out, or use: unihssl sensitivity")
    protocol.check_asked([METHOD])
    experiment = ABLATION if of == "paper" else OF_ROBUST
    return [
        protocol.run(pair, METHOD, seed, Role(experiment, variant), **knobs)
        for seed in range(seeds)
        for pair in pairs
        for variant, knobs in variants.items()
    ]


def sensitivity_values(knob: str, values: str) -> Mapping[str, Sequence[Any]]:
    """What --knob and --values ask for; without either, the paper's four."""
    if not knob and not values:
        return KNOB_VALUES
    if not knob:
        raise UserError("--values needs the --knob they are of")
    if not values and knob not in KNOB_VALUES:
        raise UserError(f"--knob {knob} needs its --values, such as --values 0.1,0.2")
    return {knob: values.split(",") if values else KNOB_VALUES[knob]}


def sensitivity_runs(
    protocol: Protocol, pairs: Sequence[str], seeds: int, values: Mapping[str, Sequence[Any]], method: str = UNIHSSL
) -> list[Run]:
    """Each knob through its values, the others as they are. The row of a run is `knob=value`."""
    protocol.check_asked([method])
    for knob in values:
        if knob in FREE_TO_CHANGE | {"method", "seed"}:
            raise UserError(f"--knob {knob}: it changes nothing that is learnt, or has an option of its own")
        if knob in protocol.asked:
            raise UserError(f"--set {knob}: --knob varies it; leave one of them out")
    runs = []
    for seed in range(seeds):
        for pair in pairs:
            for knob, wanted in values.items():
                for value in wanted:
                    settings, params = resolve(protocol.knobs(method) | {knob: value})
                    meant = (asdict(settings) | asdict(params))[knob]  # 0.10 and 1e-1 are one value
                    role = Role(SENSITIVITY, f"{knob}={meant}")
                    runs.append(protocol.run(pair, method, seed, role, **{knob: meant}))
    return runs
