"""Search: python search.py OUT WORKERS TASKFILE.  A task: {"id","dataset","pair","row","seed","variant","set"}"""
import json, os, sys, time, hashlib, warnings, traceback
warnings.simplefilter("ignore")
import multiprocessing as mp
from pathlib import Path
HOME = Path.home()
ROOTS = {"pacs": HOME/"stage/pacs", "office-caltech-10": HOME/"stage/oc", "aerial": HOME/"stage/aerial", "digits": HOME/"stage/digits"}
WEIGHTS = str(HOME/"stage/resnet50.safetensors")
OPS = {}

def patch():
    import torch, dataclasses
    import torch.nn.functional as F
    import unihssl.methods.unihssl as U
    from unihssl.methods.unihssl import UniHSSL, Losses, draw_mixing, soft_cross_entropy, trusted_cross_entropy, class_confusion, ramp, expand_labels
    from unihssl.methods.prototypes import Prototypes
    stages0, begin0 = UniHSSL.stages, UniHSSL.begin_adapt
    def key(m):
        s, p = m.settings, m.params
        what = [OPS["dataset"], OPS["pair"].split("/")[0], m.task.num_labeled, s.seed, s.lr, s.head_lr, s.weak_view, s.max_steps, s.split, p.bottleneck, p.pretrain_epochs, s.weight_decay, s.backbone]
        return HOME/"pre"/(hashlib.sha1(repr(what).encode()).hexdigest()[:16]+".pt")
    def stages(m):
        first, second = stages0(m)
        if key(m).exists(): first = dataclasses.replace(first, settings=dataclasses.replace(first.settings, epochs=0, steps=1))
        return [first, second]
    def begin(m, data):
        k = key(m)
        if k.exists(): m.network.load_state_dict(torch.load(k, map_location="cpu"))
        else:
            k.parent.mkdir(exist_ok=True); torch.save(m.network.state_dict(), k.with_suffix(f".{os.getpid()}")); k.with_suffix(f".{os.getpid()}").rename(k)
        begin0(m, data)
        if not hasattr(m, "affinity"): m.register_buffer("affinity", torch.ones((), device=data.device), persistent=False)
        OPS["affinity"] = float(m._strong_affinity(data))
        C = m.num_classes
        m.register_buffer("marginal", torch.full((C,), 1/C, device=data.device), persistent=False)
    def adapt(self, batch):
        p, labeled, unlabeled, gather = self.params, batch.labeled, batch.unlabeled, self.processes.gather
        C = self.num_classes
        mix = draw_mixing(batch, p.alpha, p.mixup_schedule, p.mixup_draw) if p.lambda_mixup else None
        views = {"labeled": labeled.weak, "weak": unlabeled.weak}
        student = "strong" if p.unlabeled_view == "strong" and unlabeled.has_strong else "weak"
        if mix: views["mixed"] = mix(labeled.weak, getattr(unlabeled, student))
        if student == "strong": views["strong"] = unlabeled.strong
        features, logits = self.network.forward_views(views, joint=p.batch_norm == "joint")
        prediction = gather(logits["weak"].detach().softmax(1))
        if "debias" in OPS:
            q = prediction[:, :C] + prediction[:, C:]
            self.marginal.lerp_(q.mean(0), 0.05)
            q = q * self.marginal.clamp(min=1e-4) ** -float(OPS["debias"])
            q = q / q.sum(1, keepdim=True)
            prediction = expand_labels(q, C, domain=1)
        pseudo = self._update_pseudo_labels(gather(unlabeled.rows), prediction)
        trusted, targets = self.pseudo_labels.trusted(pseudo), self.pseudo_labels.targets(pseudo)
        labels = self._labels(labeled.y, logits["labeled"].dtype)
        student_logits = gather(logits[student])
        rise = ramp(batch.progress, p.ramp_up) if p.ramp_up else 1.0
        losses = Losses()
        losses.add("labeled", soft_cross_entropy(logits["labeled"], labels).mean(), p.lambda_cl)
        losses.add("pseudo", trusted_cross_entropy(student_logits, targets, trusted, kept_only=p.pseudo_mean == "kept"), p.lambda_pl * rise)
        if p.lambda_confusion:
            cl = self._confused(student_logits, gather(logits["weak"]))
            if "both" in OPS: cl = torch.cat([student_logits, gather(logits["weak"])])
            by_class = torch.logaddexp(*cl.chunk(2, dim=1))
            losses.add("confusion", class_confusion(by_class, p.confusion_temperature), p.lambda_confusion)
        if "cons" in OPS:
            w = torch.logaddexp(*gather(logits["weak"]).detach().chunk(2, dim=1)).softmax(1)
            conf, t = w.max(1)
            s = torch.logaddexp(*student_logits.chunk(2, dim=1))
            losses.add("consistency", ((conf >= float(OPS["cons"])) * F.cross_entropy(s, t, reduction="none")).mean())
        if p.lambda_pa:
            losses.add("prototype", self._alignment_loss(batch, features, pseudo, trusted), p.lambda_pa * rise)
        if mix: losses.add("mixup", self._mixup_loss(logits["mixed"], mix, labels, targets, trusted), p.lambda_mixup * rise)
        losses.log("mask_rate", trusted.float().mean())
        return losses
    moving0 = Prototypes._moving_average
    def moving(self, means, here):
        updated, seen = moving0(self, means, here)
        if "lpa" in OPS: updated = updated.detach() + torch.where(here.unsqueeze(1), means - means.detach(), 0.0)
        return updated, seen
    from unihssl.methods.batch_norm_stats import statistics_of
    finish0 = UniHSSL.finish
    def finish(m, data):
        finish0(m, data)
        C, out = m.num_classes, {}
        truth = OPS["truth"].to(data.device)
        def batches(dom): return (s.test for s in dom.sweep(data.random, shuffled=True))
        def logits():
            return [torch.cat([m.network.evaluate(s.test)[1].float().softmax(1) for s in dom.sweep(data.random)]) for dom in (data.labeled, data.unlabeled)]
        def acc(p, y): return round(100*((p[:, :C]+p[:, C:]).argmax(1) == y).float().mean().item(), 1)
        ys = [data.labeled.labels, truth]
        plain = logits()
        with statistics_of(m.network, batches(data.labeled)): L = logits()
        with statistics_of(m.network, batches(data.unlabeled)): Un = logits()
        out["plain"] = [acc(p, y) for p, y in zip(plain, ys)]
        out["oracle"] = [acc(L[0], ys[0]), acc(Un[1], ys[1])]
        routed = [L[i]*L[i][:, :C].sum(1, keepdim=True) + Un[i]*Un[i][:, C:].sum(1, keepdim=True) for i in (0, 1)]
        out["routed"] = [acc(p, y) for p, y in zip(routed, ys)]
        out["domain"] = [round(100*(L[i][:, :C].sum(1) > Un[i][:, C:].sum(1)).float().mean().item(), 1) for i in (0, 1)]
        OPS["dbn"] = out
    UniHSSL.finish = finish
    UniHSSL.stages, UniHSSL.begin_adapt, UniHSSL.adapt, Prototypes._moving_average = stages, begin, adapt, moving

def work(tasks, out, lock):
    sys.stdout = sys.stderr = open(os.devnull, "w") if os.environ.get("QUIET", "1") == "1" else sys.stdout
    import torch, numpy as np
    if not torch.cuda.is_available(): torch.set_num_threads(1)
    import unihssl, unihssl.api
    from unihssl.data import catalog
    from unihssl.experiments.protocol import Protocol
    from sklearn.metrics import f1_score
    unihssl.api.CHECKED = 10**6
    from unihssl.training.loop import Trainer
    fit0 = Trainer.fit
    def fit(self, truth, display):
        OPS["truth"] = truth
        return fit0(self, truth, display)
    Trainer.fit = fit
    patch()
    while True:
        try: t = tasks.get(timeout=2)
        except Exception: return
        if t is None: return
        begin = time.time()
        OPS.clear(); OPS.update(dataset=t["dataset"], pair=t["pair"], **(t.get("variant") or {}))
        try:
            d = catalog.get(t["dataset"]); asked = dict(t.get("set") or {})
            digits = t["dataset"] == "digits"
            asked = {"split": t.get("split", "search")} | ({} if digits else {"weights": WEIGHTS}) | asked
            p = Protocol(d, ROOTS[t["dataset"]], "recipe" if digits else "fast", asked)
            a, b = catalog.load(t["dataset"], t["pair"], ROOTS[t["dataset"]])
            m = unihssl.fit(a, b, seed=t["seed"], device="cpu" if digits else "auto", **p.knobs(t["row"]))
            r = m.result
            row = t | {"affinity": OPS.get("affinity"), "train": r["unlabeled_training"], "pooled": r["pooled"]["accuracy"], "labeled": r["labeled"]["accuracy"], "unlabeled": r["unlabeled"]["accuracy"], "macro_f1": r["unlabeled"].get("macro_f1"), "dbn": OPS.get("dbn"), "warn": len(r["warnings"]), "seconds": round(time.time()-begin, 1)}
        except Exception as e:
            row = t | {"failed": traceback.format_exc()[-1500:]}
        with lock, open(out, "a") as f: f.write(json.dumps(row) + "\n")

if __name__ == "__main__":
    out, workers, spec, limit = sys.argv[1], int(sys.argv[2]), json.loads(Path(sys.argv[3]).read_text()), float(sys.argv[4])
    mp.set_start_method("spawn")
    tasks, lock = mp.Queue(), mp.Lock()
    for t in spec: tasks.put(t)
    ps = [mp.Process(target=work, args=(tasks, out, lock)) for _ in range(workers)]
    begin = time.time()
    for p in ps: p.start()
    while any(p.is_alive() for p in ps) and time.time() - begin < limit: time.sleep(0.5)
    for p in ps: p.terminate()
    for line in open(out):
        r = json.loads(line)
        if "failed" in r: print(r["id"], r["pair"], "FAILED", r["failed"][-400:]); continue
        tr = r["train"]
        print(f'{r["id"]:28s} {r["dataset"][:6]:7s} {r["pair"]:6s} s{r["seed"]} train {100*tr["accuracy"]:.1f} f1 {100*(tr.get("macro_f1") or 0):.1f} | pooled {100*r["pooled"]:.1f} lab {100*r["labeled"]:.1f} unl {100*r["unlabeled"]:.1f} aff {r["affinity"] or 0:.2f} {r.get("dbn") or ""} {"warn" if r["warn"] else ""} {r["seconds"]}s')
    print("elapsed", round(time.time()-begin), "of", len(spec))
