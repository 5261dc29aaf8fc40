"""The typed arguments of `fit` are the settings that there are."""

import runpy
import typing
from pathlib import Path

import unihssl.api
from unihssl.config import Settings, knob_fields
from unihssl.knobs import Knobs
from unihssl.methods.unihssl_params import UniHSSLParams

SCRIPT = Path(__file__).parents[1] / "scripts" / "build_knobs.py"


def test_the_module_is_what_the_script_writes():
    script = runpy.run_path(str(SCRIPT))
    assert script["FILE"].read_text() == script["source"](), "run: python scripts/build_knobs.py"


def test_fit_takes_every_setting_by_name():
    known = knob_fields(Settings, UniHSSLParams)
    hints = typing.get_type_hints(Knobs)
    assert set(known) - set(hints) == {"labeled", "unlabeled", "target_labels"}
    assert hints["epochs"] is int and hints["precision"] == known["precision"][1]
    assert unihssl.api.fit.__annotations__["knobs"] == typing.Unpack[Knobs]
