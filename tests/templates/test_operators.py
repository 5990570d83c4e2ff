"""Every declared operator has an output, a reference, templates, a peer and a how-to page."""

import importlib
import re
from pathlib import Path

import numpy as np
import pytest

from templates import Operator, operators, templates_for
from templates.naive import naive_on
from tests.templates.cases_of import cases_of
from tests.templates.compiled import Compiled
from tests.templates.devices import CPU, T4
from tuner.measure.check import check
from tuner.peers import LIBRARIES

DOCS = Path(__file__).parents[2] / "docs"
EACH = pytest.mark.parametrize("operator", operators(), ids=lambda operator: operator.name)


@EACH
def test_output_of_an_operator_is_its_last_and_only_written_argument(
    operator: Operator,
) -> None:
    workload = operator.workload.model_validate(operator.example)
    names = [argument.name for argument in workload.arguments]
    assert len(set(names)) == len(names)
    assert all(name.isidentifier() for name in names)
    assert [a.role for a in workload.arguments].index("output") == len(names) - 1
    assert workload.output == workload.arguments[-1]
    sizes = [np.prod(a.shape) * np.dtype(a.dtype).itemsize for a in workload.arguments]
    assert workload.bytes == sum(sizes)


@EACH
def test_naive_program_of_an_operator_agrees_with_its_reference(
    operator: Operator,
) -> None:
    workload = operator.workload.model_validate(operator.example)
    naive = Compiled(naive_on("cpu"), workload, {})  # type: ignore[arg-type]
    check(naive.errors, cases_of(workload), workload.max_error)


@EACH
def test_operator_has_templates_for_a_cpu_and_a_gpu(operator: Operator) -> None:
    workload = operator.workload.model_validate(operator.example)
    for limits in (CPU, T4):
        found = templates_for(workload, limits)
        assert found
        for template in found:
            assert template.kind == limits.kind
            assert template.default(workload, limits) in template.space(workload, limits)


@EACH
def test_operator_has_a_peer(operator: Operator) -> None:
    tables = (importlib.import_module(f"tuner.peers.{name}").BY_OPERATOR for name in LIBRARIES)
    assert any(operator.name in table for table in tables)


@EACH
def test_operator_has_a_how_to_page(operator: Operator) -> None:
    pages = "\n".join(page.read_text() for page in (DOCS / "how-to").glob("*.md"))
    assert re.search(rf"^tuner tune {operator.name} --", pages, re.MULTILINE)


def test_peers_compute_only_known_operators() -> None:
    known = {operator.name for operator in operators()}
    for name in LIBRARIES:
        assert importlib.import_module(f"tuner.peers.{name}").BY_OPERATOR.keys() <= known
