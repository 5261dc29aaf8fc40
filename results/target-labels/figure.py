"""python figure.py: draws digits.svg and prints the table, from digits.json."""
import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

HERE = Path(__file__).parent
FOUND = json.loads((HERE / "digits.json").read_text())
SHOWN = {"unihssl": "#1f5fbf", "mcc+sup": "#c2571a", "fixmatch": "#2e8b57", "supervised": "#777777"}
PAIRS = {"mnist/uci": "MNIST labeled, UCI unlabeled", "uci/mnist": "UCI labeled, MNIST unlabeled"}


def accuracy(method: str, pair: str, part: str) -> dict[int, list[float]]:
    """By labels a class: the seeds' accuracies."""
    found: dict[int, list[float]] = {}
    for row in FOUND[f"{method} {pair}"]["rows"]:
        found.setdefault(row["labels a class"], []).append(row[part])
    return found


for pair, title in PAIRS.items():
    print(f"\n{title}\n\n| | 0 | 1 | 5 | 20 |\n|---|---|---|---|---|")
    best = {}
    methods = [name.split()[0] for name in FOUND if name.endswith(pair)]
    table = {m: {n: (np.mean(p), np.std(p, ddof=1), np.mean(accuracy(m, pair, "unlabeled")[n])) for n, p in accuracy(m, pair, "pooled").items()} for m in methods}
    for method, row in table.items():
        cells = [f"{a:.1f} ± {s:.1f} ({u:.1f})" for a, s, u in row.values()]
        tops = [max(r[n][0] for r in table.values()) for n in row]
        cells = [f"**{c}**" if abs(v[0] - t) < 1e-9 else c for c, v, t in zip(cells, row.values(), tops)]
        print(f"| {method} | {' | '.join(cells)} |")

plt.rcParams.update({"svg.fonttype": "none", "font.size": 10, "svg.hashsalt": "unihssl"})
figure, axes = plt.subplots(1, 2, figsize=(8.2, 3.4), sharey=True, layout="constrained")
for ax, (pair, title) in zip(axes, PAIRS.items()):
    for method, colour in SHOWN.items():
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
figure.savefig(HERE / "digits.svg", metadata={"Date": None})
