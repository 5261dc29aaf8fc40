"""Where samples live: the nearest place with room, or the one asked for; and the same samples wherever it is."""

import numpy as np
import pytest
import torch

from unihssl import UserError
from unihssl.data import placement
from unihssl.data.batches import PairedData, TrainingDomain
from unihssl.data.sample_file import SampleFile, open_samples
from unihssl.data.store import Store, as_tensor
from unihssl.data.views import Views

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)
GIB = 2**30


@pytest.fixture
def machine(monkeypatch):
    """A machine with 80 GiB free on its GPU and 100 GiB free in its memory."""
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (80 * GIB, 141 * GIB))
    monkeypatch.setattr(placement, "free_memory", lambda: 100 * GIB)


@pytest.mark.parametrize(
    ("size", "device", "on_disk", "expected"),
    [
        (1, CUDA, True, "gpu"),
        (40, CUDA, False, "gpu"),
        (41, CUDA, True, "host"),
        (50, CUDA, True, "host"),
        (51, CUDA, True, "disk"),
        (51, CUDA, False, "host"),  # an array in memory is there already
        (1, CPU, True, "host"),
        (51, CPU, True, "disk"),
        (51, CPU, False, "host"),
    ],
)
def test_auto_is_the_nearest_place_with_room(machine, size, device, on_disk, expected):
    assert placement.choose_placement(size * GIB, device, "auto", on_disk=on_disk) == expected


@pytest.mark.parametrize("requested", ["gpu", "host", "disk"])
def test_a_request_is_kept(machine, requested):
    assert placement.choose_placement(60 * GIB, CUDA, requested, on_disk=True) == requested


@pytest.mark.parametrize(
    ("size", "device", "requested", "on_disk", "printed"),
    [
        (1, CPU, "gpu", True, "placement='gpu', but this run is on the CPU"),
        (90, CUDA, "gpu", True, "90.0 GiB of decoded samples do not fit the GPU's 80.0 GiB of free memory"),
        (1, CPU, "disk", False, "not on the disk in decoded form"),
    ],
)
def test_a_request_that_cannot_be_kept_is_an_error(machine, size, device, requested, on_disk, printed):
    with pytest.raises(UserError, match=printed):
        placement.choose_placement(size * GIB, device, requested, on_disk=on_disk)


def test_every_process_needs_room_of_its_own(machine):
    """A map is shared by all processes of a machine; copies in memory are not."""
    assert placement.choose_placement(30 * GIB, CPU, "auto", 1, on_disk=True) == "host"
    assert placement.choose_placement(30 * GIB, CPU, "auto", 2, on_disk=True) == "disk"
    assert placement.choose_placement(30 * GIB, CUDA, "auto", 8, on_disk=True) == "gpu"  # each has a GPU of its own
    assert placement.choose_placement(30 * GIB, CUDA, "auto", concurrent_runs=4, on_disk=True) == "disk"
    assert placement.choose_placement(20 * GIB, CUDA, "auto", concurrent_runs=2, on_disk=True) == "gpu"


@pytest.fixture
def mapped(tmp_path) -> Store:
    samples = np.random.default_rng(0).integers(0, 256, (40, 16, 16, 3), dtype=np.uint8)
    with SampleFile(tmp_path / "samples.npy", samples.shape) as file:
        for row, sample in enumerate(samples):
            file.put(row, sample)
        file.finish(without=())
    return Store(as_tensor(open_samples(tmp_path / "samples.npy", samples.shape)), "key", on_disk=True)


def test_samples_are_the_same_in_every_place(mapped):
    for requested, on_disk in (("host", False), ("disk", True)):
        (settled,), printed = placement.place_stores([mapped], CPU, requested)
        assert torch.equal(settled.samples, mapped.samples)
        assert (settled.key, settled.on_disk) == ("key", on_disk)
        assert ("memory-mapped" in printed) == on_disk


@pytest.mark.gpu
@pytest.mark.parametrize("requested", ["gpu", "host", "disk"])
def test_batches_on_a_gpu_are_the_same_from_every_place(mapped, requested):
    def batches(device, requested):
        (store,), _ = placement.place_stores([mapped], device, requested)
        views = Views(None, (0.0,) * 3, (1.0,) * 3)
        labels = torch.arange(40) % 3
        domains = [
            TrainingDomain(store, np.arange(3, 40), views, 8, seed, None if seed else labels, device=device)
            for seed in (0, 1)
        ]
        data = PairedData(*domains, 0)
        seen = []
        for stage, step in [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (1, 0), (1, 7), (1, 8)]:
            data.load(stage, step, 0.0)
            batch = data.batch()
            seen += [batch.labeled.images.cpu().clone(), batch.labeled.y.cpu().clone()]
            if stage:
                seen += [batch.unlabeled.images.cpu().clone(), batch.unlabeled.rows.cpu().clone()]
        return seen

    for here, there in zip(batches(CUDA, requested), batches(CPU, "host"), strict=True):
        assert torch.equal(here, there)
