"""Every term of an order is accepted and shown alike by API, database, client, CLI and form.

The terms are the fields of ``db.contract.order.Terms``; a new one must be added everywhere.
"""

import inspect
from dataclasses import asdict, fields, replace
from typing import Any

import pytest
import typer

from api.main import create_app
from api.web.forms import form_values, order_form
from db.contract.job import Job, JobShown, job_fields
from db.contract.order import COLUMNS, JobFilter, JobOrder, Terms, changed_terms
from db.sql.tables import jobs
from templates import operator, operators
from tuner.cli.lazy_group import load
from tuner.cli.term_options import TERMS_WITH_OWN_OPTIONS
from tuner.client.client import Client
from tuner.client.local import Local

TERMS = [field.name for field in fields(Terms)]
ORDER = JobOrder.of(operator("conv1d").workload.model_validate({"M": 64, "N": 3}))
JOB = Job.from_row(
    dict.fromkeys(field.name for field in fields(Job))
    | asdict(ORDER)
    | {"trials_requested": ORDER.trials, "id": "0" * 32, "state": "queued", "created_at": 0.0}
    | {"trials_measured": 0, "trials_ok": 0, "trials_failed": 0}
    | {"attempt": 0, "cancel_requested": False}
)


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return create_app().openapi()


@pytest.mark.parametrize("name", TERMS)
def test_the_service_takes_and_shows_each_term(document: dict[str, Any], name: str) -> None:
    schemas = document["components"]["schemas"]
    for each in ("Conv1dOrder", "DepthwiseConv2dOrder", "JobView", "ModelOrderBody", "ModelView"):
        assert name in schemas[each]["properties"]
    assert name in schemas["JobView"]["required"]
    assert name in schemas["JobView"]["examples"][0]


@pytest.mark.parametrize("name", TERMS)
def test_a_job_has_each_term_in_a_column(name: str) -> None:
    assert COLUMNS.get(name, name) in jobs.c
    assert getattr(JOB, name) == getattr(ORDER, name)
    assert name in JobShown(**job_fields(JOB, None, None)).model_dump()


@pytest.mark.parametrize("name", TERMS)
@pytest.mark.parametrize("call", [Client.submit, Client.submit_model, Local.tune, Local.tune_model])
def test_python_functions_take_each_term_by_name(call: Any, name: str) -> None:
    assert inspect.signature(call).parameters[name].default == getattr(ORDER, name)


@pytest.mark.parametrize("operator_name", [each.name for each in operators()])
def test_tune_command_has_an_option_for_each_term(operator_name: str) -> None:
    command = load("tune").commands[operator_name]
    options = {each.name for each in command.params}
    assert set(TERMS) - options <= set(TERMS_WITH_OWN_OPTIONS)
    assert isinstance(command, typer.core.TyperCommand)


def test_model_tune_command_has_an_option_for_each_term() -> None:
    options = {each.name for each in load("model").commands["tune"].params}
    assert set(TERMS) - options <= set(TERMS_WITH_OWN_OPTIONS)


@pytest.mark.parametrize("each", operators(), ids=lambda each: each.name)
def test_the_form_has_an_input_for_each_term(each: Any) -> None:
    form = order_form(each)
    assert sorted(field.name for field in (*form.options, *form.more)) == sorted(TERMS)
    assert set(form_values(JOB)) > {"trials", "target", "warm_start"}


@pytest.mark.parametrize("name", [field.name for field in fields(JobFilter)])
def test_service_and_shell_have_the_same_job_filters(document: dict[str, Any], name: str) -> None:
    queried = document["paths"]["/jobs"]["get"]["parameters"]
    assert name in {each["name"] for each in queried}
    assert name in {each.name for each in load("jobs").commands["list"].params}


def test_later_term_is_compared_only_if_it_differs_from_its_default() -> None:
    """So the order keys that earlier releases stored stay valid."""
    assert "patience" not in ORDER.compared_fields()
    assert replace(ORDER, patience=3).compared_fields()["patience"] == 3


def test_changed_terms_are_those_that_differ_from_their_defaults() -> None:
    assert changed_terms(ORDER) == {}
    assert changed_terms(replace(ORDER, seed=0, templates=("fft",))) == {
        "seed": 0,
        "templates": ("fft",),
    }


def test_schema_of_a_job_has_no_defaults_for_terms(document: dict[str, Any]) -> None:
    """A job always states its terms."""
    properties = document["components"]["schemas"]["JobView"]["properties"]
    assert [name for name in ("trials", "warm_start") if "default" in properties[name]] == []
