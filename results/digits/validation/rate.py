"""Which rate suits the small encoder, by labeled validation on the search parts: no unlabeled sample takes part.

python rate.py DIGITS > rate.txt: rate, domain, seed, accuracy in %. DIGITS is the folder with USPS.
"""

import itertools
import sys
from pathlib import Path

import unihssl
from unihssl.data import catalog

pairs = {"mnist": "mnist/uci", "uci": "uci/mnist", "usps": "usps/uci"}
knobs = {"method": "supervised", "backbone": "small_cnn", "flip": False, "tensorboard": False, "split": "search"}
for lr, name, seed in itertools.product((0.01, 0.03, 0.09, 0.27), pairs, (0, 1)):
    domains = catalog.load("digits", pairs[name], Path(sys.argv[1]))
    model = unihssl.fit(*domains, lr=lr, seed=seed, threads=1, verbose=False, **knobs)
    print(lr, name, seed, round(100 * model.result["labeled"]["accuracy"], 2), flush=True)
