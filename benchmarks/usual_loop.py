"""The training loop our speed is measured against: Uni-HSSL's step as it is usually written in this field.

JPEGs decoded by PIL in DataLoader workers for every batch, torchvision transforms one image at a time, fp32 and NCHW
as PyTorch comes, a loop over the classes, `.item()` of every loss at every step. Workers persist between epochs and
memory is pinned, which many such loops do without. Needs torch, torchvision, Pillow and NumPy alone.

    python benchmarks/usual_loop.py --steps 50 --workers 8
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from torchvision import models, transforms

BATCH = 32  # of each domain; a third batch of as many is mixed from the two
BETA, THRESHOLD, TEMPERATURE, ALPHA, ALIGNMENT = 0.8, 0.5, 0.5, 0.75, 0.01
MOMENTUM = 0.9  # of the optimiser, and of the prototypes


@dataclass(frozen=True)
class Speed:
    """Steps in `seconds`, and the two things that "images per second" may mean."""

    steps: int
    seconds: float

    @property
    def steps_per_second(self) -> float:
        return self.steps / self.seconds

    @property
    def fetched_per_second(self) -> float:
        """Images read and decoded: two batches a step."""
        return 2 * BATCH * self.steps_per_second

    @property
    def forwarded_per_second(self) -> float:
        """Images through the network: the two batches and the mixed one."""
        return 3 * BATCH * self.steps_per_second


class ImageFolder(Dataset[tuple[Tensor, int, int]]):
    """Class folders of JPEGs: image, class, row."""

    def __init__(self, root: Path) -> None:
        names = sorted(folder.name for folder in root.iterdir() if folder.is_dir())
        self.samples = [(path, c) for c, name in enumerate(names) for path in sorted((root / name).glob("*.jpg"))]
        self.transform = transforms.Compose(
            [
                transforms.Resize((256, 256)),
                transforms.RandomCrop(224),
                transforms.RandomHorizontalFlip(),
                transforms.ToTensor(),
                transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
            ]
        )

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, row: int) -> tuple[Tensor, int, int]:
        path, label = self.samples[row]
        with Image.open(path) as image:
            return self.transform(image.convert("RGB")), label, row


def usual_loop(
    root_labeled: Path,
    root_unlabeled: Path,
    model: nn.Module,
    num_classes: int,
    steps: int,
    warm_up: int,
    workers: int,
    device: str | torch.device,
) -> Speed:
    """Time `steps` steps after `warm_up` others. `model` takes images (N, 3, 224, 224) to features (N, D)."""
    device = torch.device(device)
    labeled, unlabeled = ImageFolder(root_labeled), ImageFolder(root_unlabeled)
    batches = [forever(labeled, workers, device), forever(unlabeled, workers, device)]
    model = model.to(device).eval()
    with torch.no_grad():
        width = model(torch.zeros(1, 3, 224, 224, device=device)).shape[1]
    model.train()
    head = nn.Linear(width, 2 * num_classes).to(device)
    weights = [*model.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(weights, lr=5e-4, momentum=MOMENTUM, nesterov=True, weight_decay=1e-3)
    table = torch.zeros(len(unlabeled), 2 * num_classes, device=device)  # as a first sweep would leave it
    table[:, num_classes:] = torch.randn(len(unlabeled), num_classes, device=device).mul(3).softmax(1)
    memory = torch.zeros(2, num_classes, width, device=device)
    seen = torch.zeros(2, num_classes, dtype=torch.bool, device=device)
    start = 0.0
    for step in range(warm_up + steps):
        if step == warm_up:
            synchronize(device)
            start = time.perf_counter()
        x, y, _ = (part.to(device) for part in next(batches[0]))
        u, _, rows = (part.to(device) for part in next(batches[1]))
        progress = 0.5 + step / (2 * (warm_up + steps))
        ratio = progress * torch.distributions.Beta(ALPHA, ALPHA).sample((BATCH,)).to(device).unsqueeze(1)
        image_ratio = ratio.view(-1, 1, 1, 1)
        mixed = (1 - image_ratio) * x + image_ratio * u
        features = model(torch.cat([x, u, mixed]))
        logits_x, logits_u, logits_mixed = head(features).chunk(3)
        features_x, features_u, _ = features.chunk(3)

        loss_labeled = F.cross_entropy(logits_x, y)

        table[rows] = BETA * table[rows] + (1 - BETA) * logits_u.detach().softmax(1)
        pseudo = table[rows]
        trusted = pseudo.max(1).values > THRESHOLD
        loss_pseudo = (trusted * -(pseudo * F.log_softmax(logits_u, 1)).sum(1)).mean()

        guess = torch.where(trusted, pseudo.argmax(1) - num_classes, -1)
        loss_alignment = alignment(
            prototypes(features_x, y, memory[0], seen[0]), prototypes(features_u, guess, memory[1], seen[1]), seen
        )

        target = (1 - ratio) * F.one_hot(y, 2 * num_classes) + ratio * pseudo
        loss_mixup = (logits_mixed.softmax(1) - target).pow(2).sum(1).mean()

        loss = loss_labeled + loss_pseudo + ALIGNMENT * loss_alignment + loss_mixup
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        logged = [part.item() for part in (loss, loss_labeled, loss_pseudo, loss_alignment, loss_mixup)]
        if not np.isfinite(logged).all():
            raise FloatingPointError(f"step {step}: losses {logged}")
    synchronize(device)
    return Speed(steps, time.perf_counter() - start)


def prototypes(features: Tensor, classes: Tensor, memory: Tensor, seen: Tensor) -> list[Tensor]:
    """The moving average of each class's mean feature; the gradient flows through this batch's share."""
    result = []
    for c in range(len(memory)):
        members = classes == c
        if members.any():
            mean = features[members].mean(0)
            prototype = MOMENTUM * memory[c] + (1 - MOMENTUM) * mean if seen[c] else mean
            memory[c], seen[c] = prototype.detach(), True
        else:
            prototype = memory[c].clone()
        result.append(prototype)
    return result


def alignment(labeled: list[Tensor], unlabeled: list[Tensor], seen: Tensor) -> Tensor:
    """Each class's two prototypes closer to each other than to the other classes' of the other domain."""
    both = [c for c in range(len(labeled)) if seen[0, c] and seen[1, c]]
    total = labeled[0].new_zeros(())
    if len(both) < 2:
        return total
    for c in both:
        others = [k for k in both if k != c]
        positive = F.cosine_similarity(labeled[c], unlabeled[c], dim=0) / TEMPERATURE
        to_unlabeled = F.cosine_similarity(labeled[c], torch.stack([unlabeled[k] for k in others])) / TEMPERATURE
        to_labeled = F.cosine_similarity(unlabeled[c], torch.stack([labeled[k] for k in others])) / TEMPERATURE
        total = total + torch.logsumexp(to_unlabeled, 0) + torch.logsumexp(to_labeled, 0) - 2 * positive
    return total


def forever(dataset: ImageFolder, workers: int, device: torch.device) -> Iterator[list[Tensor]]:
    if len(dataset) < BATCH:
        raise ValueError(f"{len(dataset)} images are fewer than a batch of {BATCH}")
    on_gpu = device.type == "cuda"
    loader = DataLoader(
        dataset, BATCH, True, num_workers=workers, pin_memory=on_gpu, drop_last=True, persistent_workers=workers > 0
    )
    while True:
        yield from loader


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def make_jpeg_domain(folder: Path, classes: int, per_class: int, side: int, seed: int) -> Path:
    """Synthetic JPEGs in class folders: smooth shapes under some noise, so that they cost what photographs cost."""
    rng = np.random.default_rng(seed)
    for c in range(classes):
        (folder / f"class_{c:03d}").mkdir(parents=True, exist_ok=True)
        for i in range(per_class):
            coarse = Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8))
            smooth = np.asarray(coarse.resize((side, side), Image.Resampling.BICUBIC), dtype=np.float32)
            pixels = np.clip(smooth + rng.normal(scale=8, size=smooth.shape), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"class_{c:03d}" / f"{i:05d}.jpg", quality=90)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Speed of the usual training loop with a ResNet-50 on synthetic JPEGs."
    )
    for name, default in (("classes", 65), ("per-class", 20), ("side", 400), ("steps", 50), ("warm-up", 10)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--workers", type=int, default=4, help="DataLoader workers for each domain")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    model = models.resnet50()
    model.fc = nn.Identity()
    with tempfile.TemporaryDirectory() as scratch:
        roots = [
            make_jpeg_domain(Path(scratch) / name, args.classes, args.per_class, args.side, seed)
            for seed, name in enumerate(("labeled", "unlabeled"))
        ]
        speed = usual_loop(*roots, model, args.classes, args.steps, args.warm_up, args.workers, args.device)
    print(
        f"{speed.steps_per_second:.2f} steps/s: {speed.fetched_per_second:.0f} images/s fetched, "
        f"{speed.forwarded_per_second:.0f} images/s through the network ({speed.steps} steps on {args.device})"
    )


if __name__ == "__main__":
    main()
