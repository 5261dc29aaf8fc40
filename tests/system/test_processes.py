"""Two CPU processes train one model: the same classifier, memory and prototypes everywhere."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

WORKER = """
import sys
from pathlib import Path
import torch
from unihssl.api import train
from unihssl.training import loop
from unihssl.training.display import Display

torch.set_num_threads(1)
out = Path(sys.argv[1])
finish = loop.Trainer.fit

def fit(self, *arguments):
    finish(self, *arguments)
    torch.save(self.method.state_dict(), out.parent / f"rank{self.fabric.global_rank}.pt")

loop.Trainer.fit = fit
knobs = {"devices": 2, "backbone": "small_cnn", "batch_size": 8, "epochs": 2, "tensorboard": False}
knobs["method"] = sys.argv[2]
data = str(out.parent / "labeled.npz"), str(out.parent / "unlabeled.npz")
with Display(quiet=True) as display:
    train(out, *data, knobs, resume=False, display=display)
"""


@pytest.mark.parametrize("method", ["unihssl", "flexmatch", "simmatch"])
def test_two_processes_agree_on_everything(tmp_path: Path, method: str):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 12)
    for name, shift in (("labeled", 0), ("unlabeled", 40)):
        x = np.clip(60 * y[:, None, None, None] + shift + rng.normal(0, 20, (36, 12, 12, 3)), 0, 255).astype(np.uint8)
        np.savez(tmp_path / f"{name}.npz", x=x, y=y)
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    done = subprocess.run(
        [sys.executable, script, tmp_path / "run", method], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    ranks = [torch.load(tmp_path / f"rank{r}.pt", weights_only=True) for r in (0, 1)]
    own = ("running_mean", "running_var")  # each process's BatchNorm statistics are its own
    for name in ranks[0]:
        if not name.endswith(own):
            torch.testing.assert_close(ranks[0][name], ranks[1][name], rtol=0, atol=1e-6, msg=name)
    assert (tmp_path / "run" / "result.json").exists()
