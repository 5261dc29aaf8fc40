"""Which image side and rate suit the small encoder, by labeled validation alone: no unlabeled and no test sample.

python labeled.py > labeled.txt: side, rate, domain, seed, accuracy in %.
"""

import itertools

import numpy as np

import unihssl
from unihssl.data import digits

for side, lr, name, seed in itertools.product((8, 12, 16, 20), (0.003, 0.01, 0.03), ("mnist", "uci"), (0, 1)):
    digits.SIDE = side
    x, y = digits.load_domain(name)
    kept = np.random.default_rng(123).permutation(len(x))[: int(0.9 * len(x))]  # the rest is never looked at
    x, y = x[kept], y[kept]
    knobs = {"method": "supervised", "backbone": "small_cnn", "flip": False, "tensorboard": False}
    model = unihssl.fit((x, y), x[:64], lr=lr, seed=seed, test_fraction=0.2, **knobs)
    print(side, lr, name, seed, round(100 * model.result["labeled"]["accuracy"], 2), flush=True)
