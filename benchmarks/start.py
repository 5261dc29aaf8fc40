"""How long a user waits: for help, and from `unihssl train` to the first step with decoded images in the cache.

python benchmarks/start.py --images 5000 --backbone resnet50 --json start.json
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from common import report
from usual_loop import make_jpeg_domain

from unihssl.run_folder import RunFolder


def seconds(command: list[str], until: Path | None = None) -> float:
    """Until the command ends, or until a file has something in it; then it is killed."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    errors: list[bytes] = []
    reader = threading.Thread(target=lambda: errors.append(process.stderr.read()), daemon=True)
    reader.start()
    while process.poll() is None and not (until and until.exists() and until.stat().st_size):
        time.sleep(0.005)
    took = time.perf_counter() - start
    if until and process.poll() is None:
        process.kill()
    elif process.wait():
        sys.exit(f"{' '.join(command)} failed: {b''.join(errors).decode()[-2000:]}")
    reader.join(5)
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=5000, help="of both domains together")
    parser.add_argument("--backbone", default="resnet50")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, default=None, help="write the numbers here")
    arguments = parser.parse_args()
    unihssl = [sys.executable, "-m", "unihssl"]
    rows: list[dict[str, Any]] = []
    helps = [seconds([*unihssl, "--help"]) for _ in range(arguments.repeats)]
    rows.append({"what": "unihssl --help", "best s": min(helps), "worst s": max(helps)})
    with tempfile.TemporaryDirectory() as scratch:
        for seed, name in enumerate("ab"):
            make_jpeg_domain(Path(scratch) / name, 10, arguments.images // 20, 300, seed)
        os.environ["UNIHSSL_CACHE"] = f"{scratch}/cache"

        def to_first_step(run: int) -> float:
            out = Path(scratch) / f"run{run}"
            command = [*unihssl, "train", "--labeled", f"{scratch}/a", "--unlabeled", f"{scratch}/b", "--out", str(out)]
            command += ["--backbone", arguments.backbone, "--weights", "none", "--set", "log_every=1"]
            return seconds(command, RunFolder(out).metrics)

        cold, *warm = [to_first_step(run) for run in range(1 + arguments.repeats)]
    what = f"unihssl train to first step, {arguments.images} images"
    rows.append({"what": f"{what}, nothing decoded", "best s": cold, "worst s": cold})
    rows.append({"what": f"{what}, all decoded", "best s": min(warm), "worst s": max(warm)})
    report(f"start, {arguments.backbone}", rows, arguments)


if __name__ == "__main__":
    main()
