"""Compares recipes by macro F1 on all unlabeled training samples of the search part.

    python compare.py OUT.jsonl WORKERS CPU_WORKERS SECONDS TASKS.json

A task is {"name", "dataset", "pair", "seed", "set"} and maybe "row" (default unihssl), "split" (search), "schedule". STAGE
is the folder with pacs, office-caltech-10, aerial, digits and resnet50.safetensors. What is in OUT is not run again. Data
sets of images run in WORKERS on a GPU, digits in CPU_WORKERS beside them, one thread each.
"""

import json
import multiprocessing as mp
import os
import sys
import time
import traceback
import warnings
from pathlib import Path

STAGE = Path(os.environ.get("STAGE", Path.home() / "stage"))


def percent(share):
    return round(100 * float(share or 0), 1)


def train(task):
    import numpy as np
    from sklearn.metrics import f1_score

    import unihssl
    from unihssl.data import catalog
    from unihssl.evaluation import check_run
    from unihssl.experiments.protocol import Protocol
    from unihssl.pipeline import measure

    seen = {}
    first = getattr(check_run, "first", check_run.check_unlabeled)
    check_run.first = first

    def check(model, pair, *rest, **named):
        rows = pair.unlabeled.split.train
        predicted = model.probabilities(model.predict_store(pair.unlabeled.store, rows)).argmax(1)
        true = pair.unlabeled.domain.labels[rows]
        seen.update(accuracy=np.mean(predicted == true), macro_f1=f1_score(true, predicted, average="macro"))
        return first(model, pair, *rest, **named)

    measure.check_unlabeled = check
    name, digits = task["dataset"], task["dataset"] == "digits"
    own = {"threads": 1} if digits else {"weights": str(STAGE / "resnet50.safetensors")}
    asked = {"split": task.get("split", "search")} | own | task.get("set", {})
    protocol = Protocol(catalog.get(name), STAGE / name, task.get("schedule", "recipe" if digits else "fast"), asked)
    domains = catalog.load(name, task["pair"], STAGE / name)
    begin = time.time()
    knobs = protocol.knobs(task.get("row", "unihssl"))
    model = unihssl.fit(*domains, seed=task["seed"], device="cpu" if digits else "auto", verbose=False, **knobs)
    result = model.result
    row = {key: percent(value) for key, value in seen.items()}
    row |= {part: percent(result[part]["accuracy"]) for part in ("pooled", "labeled", "unlabeled")}
    row |= {"test_f1": percent(result["unlabeled"].get("macro_f1")), "warnings": len(result["warnings"])}
    return row | {"seconds": round(time.time() - begin, 1)}


def work(tasks, out, lock, cpu):
    warnings.simplefilter("ignore")
    sys.stdout = sys.stderr = open(os.devnull, "w")
    if cpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import torch

    torch.set_num_threads(1)
    while (task := tasks.get()) is not None:
        try:
            row = train(task)
        except Exception:
            row = {"failed": traceback.format_exc()[-1500:]}
        with lock, open(out, "a") as file:
            file.write(json.dumps(task | row) + "\n")


def identity(task):
    keys = ("name", "dataset", "pair", "seed", "set", "row", "split")
    return json.dumps({key: task.get(key) for key in keys}, sort_keys=True)


def line(r):
    if "failed" in r:
        return f"{r['name']} {r['pair']} FAILED {r['failed'][-500:]}"
    what = f"{r['name']:24s} {r['dataset'][:6]} {r['pair']:9s} s{r['seed']} {r.get('set', {}).get('label_shift', 0):3} "
    return what + f"train {r['accuracy']} {r['macro_f1']} | pooled {r['pooled']} lab {r['labeled']} unl {r['unlabeled']} f1 {r['test_f1']} w{r['warnings']} {r['seconds']}s"


def waiting(spec, out, begun):
    """The tasks of the file that are neither begun nor in OUT; it may grow while this runs."""
    rows = [json.loads(text) for text in open(out)] if Path(out).exists() else []
    done = {identity(row) for row in rows if "failed" not in row} | begun
    return [task for task in json.loads(Path(spec).read_text()) if identity(task) not in done]


def main():
    out, workers, limit, spec = sys.argv[1], [int(n) for n in sys.argv[2:4]], float(sys.argv[4]), sys.argv[5]
    context = mp.get_context("spawn")
    lock, processes, begun = context.Lock(), [], set()
    queues = [context.Queue(), context.Queue()]  # of a GPU, of CPU cores
    for cpu, count in enumerate(workers):
        processes += [context.Process(target=work, args=(queues[cpu], out, lock, bool(cpu))) for _ in range(count)]
    begin = time.time()
    for process in processes:
        process.start()
    while time.time() - begin < limit and any(process.is_alive() for process in processes):
        left = waiting(spec, out, begun)
        for cpu, queue in enumerate(queues):
            own = [task for task in left if (task["dataset"] == "digits") == bool(cpu)]
            if own and queue.empty() and workers[cpu]:
                queue.put(own[0])
                begun.add(identity(own[0]))
            elif not own and not os.environ.get("WAIT"):
                for _ in range(workers[cpu]):
                    queue.put(None)
        time.sleep(0.1)
    for process in processes:
        process.kill()
    print(*(line(json.loads(text)) for text in open(out)), f"elapsed {time.time() - begin:.0f}", sep="\n")


if __name__ == "__main__":
    main()
