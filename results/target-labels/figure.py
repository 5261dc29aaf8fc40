"""python figure.py [digits|pacs]: draws NAME.svg and prints the tables, from NAME.json."""

import json
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

HERE = Path(__file__).parent
NAME = sys.argv[1] if len(sys.argv) > 1 else "digits"
FOUND = json.loads((HERE / f"{NAME}.json").read_text())
SHOWN = {"unihssl": "#1f5fbf", "mcc+sup": "#c2571a", "fixmatch": "#2e8b57", "supervised": "#777777"}
TITLES = {
    "mnist/uci": "MNIST labeled, UCI unlabeled",
    "uci/mnist": "UCI labeled, MNIST unlabeled",
    "P/A": "photographs labeled, paintings unlabeled",
    "P/C": "photographs labeled, cartoons unlabeled",
}
PAIRS = {pair: title for pair, title in TITLES.items() if any(name.endswith(f" {pair}") for name in FOUND)}


def accuracy(method: str, pair: str, part: str) -> dict[int, list[float]]:
    """By labels a class: the seeds' accuracies."""
    found: dict[int, list[float]] = {}
    for row in FOUND[f"{method} {pair}"]["rows"]:
        found.setdefault(row["labels a class"], []).append(row[part])
    return found


def cell(pooled: list[float], unlabeled: list[float], best: float, most: int) -> str:
    spread = f" ± {np.std(pooled, ddof=1):.1f}" if len(pooled) > 1 else ""
    text = f"{np.mean(pooled):.1f}{spread} ({np.mean(unlabeled):.1f})"
    text = f"**{text}**" if abs(np.mean(pooled) - best) < 1e-9 else text
    return text if len(pooled) == most else f"{text} [{len(pooled)}]"


for pair, title in PAIRS.items():
    print(f"\n{title}\n\n| labels a class | 0 | 1 | 5 | 20 |\n|---|---|---|---|---|")
    methods = [name.split()[0] for name in FOUND if name.endswith(f" {pair}")]
    pooled = {method: accuracy(method, pair, "pooled") for method in methods}
    most = max(len(seeds) for row in pooled.values() for seeds in row.values())
    for method, row in pooled.items():
        unlabeled = accuracy(method, pair, "unlabeled")
        tops = {n: max(np.mean(other[n]) for other in pooled.values() if n in other) for n in row}
        print(f"| {method} | {' | '.join(cell(row[n], unlabeled[n], tops[n], most) for n in row)} |")

plt.rcParams.update({"svg.fonttype": "none", "font.size": 10, "svg.hashsalt": "unihssl"})
figure, axes = plt.subplots(1, 2, figsize=(8.2, 3.4), sharey=True, layout="constrained")
for ax, (pair, title) in zip(axes, PAIRS.items(), strict=True):
    for method, colour in SHOWN.items():
        if f"{method} {pair}" not in FOUND:
            continue
        found = accuracy(method, pair, "unlabeled")
        x, y = range(len(found)), [np.mean(v) for v in found.values()]
        low, high = [min(v) for v in found.values()], [max(v) for v in found.values()]
        ax.fill_between(x, low, high, color=colour, alpha=0.15, lw=0)
        ax.plot(x, y, "o-", color=colour, lw=1.8, ms=4, label=method)
    ax.set_xticks(range(4), ["0", "1", "5", "20"])
    ax.set(title=title, xlabel="labels of the unlabeled domain, a class")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="#dddddd", lw=0.6)
axes[0].set_ylabel("accuracy on the unlabeled domain, %")
axes[1].legend(frameon=False, loc="lower right")
figure.savefig(HERE / f"{NAME}.svg", metadata={"Date": None})
