"""python search.py OUT WORKERS TASKS.json SECONDS: compares recipes by accuracy on unlabeled training samples."""
import json, os, sys, time, traceback, warnings
warnings.simplefilter("ignore")
import multiprocessing as mp
from pathlib import Path
STAGE = Path(os.environ.get("STAGE", Path.home() / "stage"))
ROOTS = {"pacs": STAGE/"pacs", "office-caltech-10": STAGE/"oc", "aerial": STAGE/"aerial", "digits": STAGE/"digits"}
WEIGHTS = str(STAGE/"resnet50.safetensors")

def work(tasks, out, lock):
    sys.stdout = sys.stderr = open(os.devnull, "w")
    import torch
    torch.set_num_threads(4 if torch.cuda.is_available() else 1)
    import unihssl
    from unihssl.data import catalog
    from unihssl.experiments.protocol import Protocol
    import unihssl.pipeline.train as T
    from unihssl.methods.unihssl import UniHSSL
    from unihssl.methods.batch_norm_stats import statistics_of, _layers
    OPS = {}
    finish0, run0 = UniHSSL.finish, T.finish_run
    def bufs(net): return [b for l in _layers(net) for b in (l.running_mean, l.running_var)]
    def finish(m, data):
        finish0(m, data)
        OPS["plain"] = [b.clone() for b in bufs(m.network)]
        for k, dom in (("A", data.labeled), ("B", data.unlabeled)):
            with statistics_of(m.network, (s.test for s in dom.sweep(data.random, shuffled=True))): OPS[k] = [b.clone() for b in bufs(m.network)]
        OPS["half"] = [(a + b) / 2 for a, b in zip(OPS["A"], OPS["B"])]
    def finish_run(model, tester, pair, *rest):
        run0(model, tester, pair, *rest)
        if "plain" not in OPS: return
        net = tester.network; out = {}; pr = {}
        for k in ("A", "B", "half", "plain"):
            for b, v in zip(bufs(net), OPS[k]): b.copy_(v)
            for role, part in pair.parts.items():
                p = tester.predict_store(part.store, part.split.test); y = part.domain.labels[part.split.test]
                pr[k, role] = p
                out[k + " " + role] = round(100 * float((p.probabilities[tester.rule].argmax(1) == y).mean()), 1)
        for role, part in pair.parts.items():
            y = part.domain.labels[part.split.test]
            a, b = pr["A", role], pr["B", role]
            isb = (a.unlabeled_domain + b.unlabeled_domain) > 1
            pa, pb = (x.probabilities[tester.rule].argmax(1) for x in (a, b))
            import numpy as np
            out["routed " + role] = round(100 * float((np.where(isb, pb, pa) == y).mean()), 1); out["dom " + role] = round(100 * float(isb.mean()), 1)
        model.result["alt"] = out; OPS.clear()
    UniHSSL.finish, T.finish_run = finish, finish_run
    while (t := tasks.get()) is not None:
        begin = time.time()
        try:
            digits = t["dataset"] == "digits"
            asked = {"split": t.get("split", "search")} | ({} if digits else {"weights": WEIGHTS}) | (t.get("set") or {})
            p = Protocol(catalog.get(t["dataset"]), ROOTS[t["dataset"]], "recipe" if digits else "fast", asked)
            a, b = catalog.load(t["dataset"], t["pair"], ROOTS[t["dataset"]])
            m = unihssl.fit(a, b, seed=t["seed"], device="cpu" if digits else "auto", verbose=False, **p.knobs(t["row"]))
            r = m.result
            row = t | {"result": {k: r[k] for k in ("unlabeled_training", "pooled", "labeled", "unlabeled", "warnings", "alt") if k in r}, "seconds": round(time.time()-begin, 1)}
        except Exception:
            row = t | {"failed": traceback.format_exc()[-1500:]}
        with lock, open(out, "a") as f: f.write(json.dumps(row, default=str) + "\n")

def show(r):
    if "failed" in r: return f'{r["id"]} {r["pair"]} FAILED {r["failed"][-600:]}'
    x = r["result"]; tr = x.get("unlabeled_training") or {}
    g = lambda d, k="accuracy": 100 * (d if isinstance(d, float) else (d or {}).get(k) or 0)
    return f'{r["id"]:22s} {r["dataset"][:6]:7s} {r["pair"]:6s} s{r["seed"]} train {g(tr):.1f} | pooled {g(x["pooled"]):.1f} lab {g(x["labeled"]):.1f} unl {g(x["unlabeled"]):.1f} f1 {g(x["unlabeled"],"macro_f1"):.1f} {"warn" if x["warnings"] else ""} {r["seconds"]}s {x.get("alt") or ""}'

if __name__ == "__main__":
    out, workers, spec, limit = sys.argv[1], int(sys.argv[2]), json.loads(Path(sys.argv[3]).read_text()), float(sys.argv[4])
    mp.set_start_method("spawn")
    tasks, lock = mp.Queue(), mp.Lock()
    for t in spec: tasks.put(t)
    for _ in range(workers): tasks.put(None)
    ps = [mp.Process(target=work, args=(tasks, out, lock)) for _ in range(workers)]
    begin = time.time()
    for p in ps: p.start()
    while any(p.is_alive() for p in ps) and time.time() - begin < limit: time.sleep(0.5)
    for p in ps: p.terminate()
    rows = [json.loads(l) for l in open(out)]
    for r in rows: print(show(r))
    print("elapsed", round(time.time()-begin), "done", len(rows), "of", len(spec))
