"""The code unpickles nothing, because unpickling runs whatever code the data names.

This holds for data that is stored, imported or served, and for messages of the child processes that
convtune starts itself: a candidate runs in such a child and could write them.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("api", "db", "templates", "tuner")
MODULES = {
    "pickle", "_pickle", "cPickle", "cloudpickle", "dill", "marshal", "shelve", "joblib",
    "multiprocessing", "yaml",
}  # fmt: skip
HARMLESS = {"multiprocessing.util"}
CALLS = {"load_model", "unpickle", "from_pickle", "read_pickle", "eval", "exec"}
"""Names of functions that build arbitrary objects or run code; ``load_model`` is XGBoost's."""
KNOWN = {"tuner/library/call.py": ["exec"], "tuner/plan/ranker.py": ["load_model"]}
"""Uses that are allowed, because they read nothing that was stored or sent.

``exec`` gets the names that a workload's class gives its arguments; ``load_model`` reads the
package's own rankers, which are trees in UBJSON.
"""
LOADERS = {"torch", "xgboost", "xgb", "np", "numpy", "model", "XGBModel"}
"""Modules and objects whose ``load`` reads pickles; NumPy's does so only with ``allow_pickle``."""


def unpickling(source: str) -> Iterator[str]:
    """Yield the imports and calls of a program that could turn data into objects of any class."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            names = []
        risky = (name for name in names if name not in HARMLESS)
        yield from (f"import {name}" for name in risky if name.partition(".")[0] in MODULES)
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Name) and called.id in CALLS:
            yield called.id
        elif isinstance(called, ast.Attribute) and called.attr in CALLS - {"eval", "exec"}:
            yield called.attr
        elif (
            isinstance(called, ast.Attribute)
            and called.attr == "load"
            and (owner := ast.unparse(called.value).rpartition(".")[2].lstrip("_")) in LOADERS
        ):
            options = {keyword.arg for keyword in node.keywords}
            if owner not in {"np", "numpy"} or "allow_pickle" in options:
                yield f"{owner}.load"


def test_code_unpickles_nothing() -> None:
    found = {
        str(path.relative_to(ROOT)): sorted(set(unpickling(path.read_text())))
        for room in ROOMS
        for path in sorted((ROOT / room).rglob("*.py"))
    }
    assert len(found) > 200
    assert {path: names for path, names in found.items() if names} == KNOWN


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from cloudpickle import loads",
        "def f():\n    from multiprocessing import connection",
        "booster.load_model(path)",
        "self._model.load(path)",
        "cost_model.XGBModel.load(path)",
        "torch.load(path)",
        "np.load(path, allow_pickle=True)",
        "eval(text)",
        "import marshal as m",
    ],
)
def test_search_finds_each_known_way_to_unpickle(source: str) -> None:
    assert len(list(unpickling(source))) == 1


def test_search_ignores_loads_that_cannot_unpickle() -> None:
    assert list(unpickling("import json\nnp.load(path, mmap_mode='r')\nloading.load(path)")) == []
