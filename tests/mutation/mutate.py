"""Mutation testing: is there a test that fails for every small change of what the equations and the splits are?

    python tests/mutation/mutate.py losses pseudo_labels split

Each mutant swaps an operator, changes a number, negates a condition or drops a statement of a module, whose tests are
run on it in a process of their own. Survivors are printed, unless `equivalent.txt` explains why no test can tell them
from the original. Nothing on the disk is changed.
"""

import argparse
import ast
import copy
import importlib.abc
import importlib.util
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
MODULES = {  # file, tests, and the functions that are meant (empty: all)
    "losses": ("losses.py", ["test_losses.py"], ()),
    "pseudo_labels": ("methods/pseudo_labels.py", ["methods/test_pseudo_labels.py"], ()),
    "split": ("data/split.py", ["data/test_split.py", "data/test_target_labels.py"], ()),
    "batches": (
        "data/batches.py",
        ["data/test_batches.py", "data/test_target_labels.py", "methods/test_imbalance.py"],
        (),
    ),
    "schedules": ("training/optimizer.py", ["training/test_setup.py"], ("schedule_factor", "set_learning_rate")),
}
SECONDS = 300  # of one mutant: a change may well make a loop endless
SWAPS: dict[type, type] = {ast.Lt: ast.LtE, ast.Gt: ast.GtE, ast.Eq: ast.NotEq, ast.Is: ast.IsNot, ast.In: ast.NotIn}
SWAPS |= {ast.Add: ast.Sub, ast.Mult: ast.Div, ast.BitAnd: ast.BitOr, ast.And: ast.Or}
SWAPS |= {new: old for old, new in SWAPS.items()} | {ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Pow: ast.Mult}
PRELOADED = "torch", "torchvision", "timm", "lightning_fabric", "sklearn.base", "scipy.stats", "hypothesis", "pytest"

Change = Callable[[Any], Any]  # a node to what takes its place; None removes a statement


def changes(node: ast.AST) -> Iterator[Change]:
    """The mutations of one node."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in SWAPS:
        yield lambda n: ast.Compare(n.left, [SWAPS[type(n.ops[0])]()], n.comparators)
    elif isinstance(node, ast.BinOp) and type(node.op) in SWAPS:
        yield lambda n: ast.BinOp(n.left, SWAPS[type(n.op)](), n.right)
    elif isinstance(node, ast.BoolOp):
        yield lambda n: ast.BoolOp(SWAPS[type(n.op)](), n.values)
    elif isinstance(node, ast.UnaryOp):
        yield lambda n: n.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield lambda n: ast.Constant(not n.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield lambda n: ast.Constant(n.value + 1)
    elif isinstance(node, ast.IfExp):
        yield lambda n: ast.IfExp(n.test, n.orelse, n.body)
    elif isinstance(node, ast.If):
        yield lambda n: ast.If(ast.UnaryOp(ast.Not(), n.test), n.body, n.orelse)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not (node.args or node.keywords):
        yield lambda n: n.func.value
    elif isinstance(node, ast.AugAssign | ast.Break | ast.Raise | ast.Expr) and not _is_text(node):
        yield lambda n: ast.Pass()


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def sites(tree: ast.Module, functions: tuple[str, ...]) -> Iterator[tuple[int, Change]]:
    """Where the module can be changed: positions in `ast.walk`. Types and messages are left alone."""
    left_out, meant = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr | ast.Assert):
            left_out |= set(ast.walk(node))
        for types in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            left_out |= set(ast.walk(types)) if isinstance(types, ast.AST) else set()
        if isinstance(node, ast.FunctionDef) and node.name in functions:
            meant |= set(ast.walk(node))
    for position, node in enumerate(ast.walk(tree)):
        if node not in left_out and (node in meant or not functions):
            yield from ((position, change) for change in changes(node))


class _Replaced(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> Any:
        return self.new if node is self.old else super().generic_visit(node)


def mutants(path: Path, functions: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The line, with what was changed in it, and the source of each mutant."""
    tree, lines = ast.parse(path.read_text()), path.read_text().splitlines()
    for position, change in sites(tree, functions):
        changed = copy.deepcopy(tree)
        old = list(ast.walk(changed))[position]
        before, new = ast.unparse(old).partition("\n")[0], change(old)
        after = ast.unparse(ast.fix_missing_locations(copy.deepcopy(new))).partition("\n")[0]
        source = ast.unparse(ast.fix_missing_locations(_Replaced(old, new).visit(changed)))
        yield f"{lines[old.lineno - 1].strip()}    {before} -> {after}", source  # type: ignore[attr-defined]


class _Mutated(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):
    """Imports one module from another source."""

    def __init__(self, name: str, path: Path, source: str) -> None:
        self.name, self.path, self.source = name, path, source

    def find_spec(self, name: str, path: object, target: object = None) -> Any:
        return importlib.util.spec_from_loader(name, self, origin=str(self.path)) if name == self.name else None

    def get_filename(self, name: str) -> str:
        return str(self.path)

    def get_data(self, path: Any) -> bytes:
        return self.source.encode() if path == str(self.path) else b""


def passes(name: str, path: Path, source: str, tests: list[str]) -> bool:
    """Whether the tests pass with this source of a module."""
    child = os.fork()
    if not child:
        signal.alarm(SECONDS)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        sys.meta_path.insert(0, _Mutated(name, path, source))
        import pytest

        code = pytest.main(["-x", "-q", "-n0", "-p", "no:cacheprovider", *(str(ROOT / "tests" / t) for t in tests)])
        os._exit(int(code))
    return os.waitpid(child, 0)[1] == 0


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("modules", nargs="*", choices=list(MODULES), default=list(MODULES))
    explained = {line for line in Path(__file__).with_name("equivalent.txt").read_text().splitlines() if " -> " in line}
    given, survived = options.parse_args(), 0
    for module in PRELOADED:
        importlib.import_module(module)
    hypothesis = sys.modules["hypothesis"]
    phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]  # a failure is not made smaller
    hypothesis.settings.register_profile("mutation", phases=phases, derandomize=True, deadline=None)
    hypothesis.settings.load_profile("mutation")
    for module in given.modules:
        file, tests, functions = MODULES[module]
        path, begun = ROOT / "src" / "unihssl" / file, time.monotonic()
        name = "unihssl." + file.removesuffix(".py").replace("/", ".")
        assert passes(name, path, path.read_text(), tests), f"{module}: its tests fail without any change"
        found = [m for m in mutants(path, functions) if f"{module}: {m[0]}" not in explained]
        alive = 0
        for what, source in found:
            if passes(name, path, source, tests):
                print(f"{module}: {what}", flush=True)
                alive += 1
        print(f"{module}: {alive} of {len(found)} survived, {time.monotonic() - begun:.0f} s", flush=True)
        survived += alive
    sys.exit(bool(survived))


if __name__ == "__main__":
    main()
