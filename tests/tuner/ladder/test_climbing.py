"""Ladders climbed on this CPU: real rungs, rungs that fail, and the table and picture of them."""

import io
import json
import os
import signal
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Timer

import pytest
from rich.console import Console
from stored_best import store

from db.results import ladders
from db.sql.engine import migrate, open_engine
from templates import operator
from templates.conv1d.workload import Conv1dWorkload
from templates.rung import Rung
from tests.tuner.ladder.planted_rungs import planted
from tests.tuner.measure import remote
from tuner.build.builder import Builder
from tuner.cli import app as cli
from tuner.device.detect import detect
from tuner.errors import NothingWorked, UnknownDocument
from tuner.ladder import ladder
from tuner.ladder.ladder import climb, rungs_of
from tuner.ladder.report import picture, show_ladder
from tuner.ladder.table import Ladder, Row
from tuner.process.stopping import Stopped, stop_on_signals
from tuner.settings import Settings

SMALL = Conv1dWorkload(M=97, N=7)


@pytest.fixture(scope="module")
def builder() -> Iterator[Builder]:
    with Builder(1, cache=Settings().build_cache) as pool:
        yield pool


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out peers, whose libraries take a second to import."""
    monkeypatch.setattr(ladder, "groups", lambda _: ())


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Set TUNER_DATABASE_URL to a new database; return the monkeypatch that did."""
    monkeypatch.setenv("TUNER_DATABASE_URL", f"sqlite:///{tmp_path / 'convtune.db'}")
    return monkeypatch


def test_kernel_longer_than_its_signal_is_refused(builder: Builder) -> None:
    with pytest.raises(NothingWorked, match="need N at most M"):
        climb(Conv1dWorkload(M=10, N=32), detect("cpu"), builder, [])


def test_ladder_command_climbs_draws_and_stores(
    shell: pytest.MonkeyPatch,
    libraries: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    engine = open_engine(f"sqlite:///{tmp_path / 'convtune.db'}")
    migrate(engine)
    store(engine, libraries["same-serial"])
    drawing = tmp_path / "ladder.svg"
    options = "--document 002 --M 1001 --N 7 --target cpu --json"
    shell.setattr(
        sys, "argv", ["tuner", "ladder", "conv1d", *options.split(), "--svg", str(drawing)]
    )
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    assert not exit_.value.code
    printed = json.loads(capsys.readouterr().out)
    assert (
        printed["workload"]
        == Conv1dWorkload(M=1001, N=7, mode="same", kind="correlate").model_dump()
    )
    rows = {row["name"]: row for row in printed["rows"]}
    rungs = [name for name, row in rows.items() if row["what"] == "rung"]
    assert rungs == [rung.name for rung in rungs_of("conv1d", "002")]
    timed = [*rungs, "best", "numpy.correlate", "empty"]
    assert all(rows[name]["time_us"] > 0 for name in timed)
    assert all(0 <= rows[name]["max_error"] <= 1e-5 for name in timed[:-1])
    assert [rows[rung]["over_before"] is None for rung in rungs] == [True, False, False, False]
    times = [rows[rung]["time_us"] for rung in rungs]
    assert rows[rungs[2]]["over_before"] == pytest.approx(times[1] / times[2])
    assert rows["best"]["over_naive"] == pytest.approx(times[0] / rows["best"]["time_us"])
    (stored,) = ladders.list_ladders(engine, "conv1d").items
    assert (stored.rows, stored.documents) == (printed["rows"], printed["documents"])
    assert stored.device.name == printed["device"]["name"]
    assert ET.parse(drawing).getroot().tag.endswith("svg")  # noqa: S314
    engine.dispose()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("conv1d --document 007", "conv1d has no rungs of document '007'; known are: 000, 001"),
        ("conv1d --mode valid --N 16385", "--N: the kernel spans 16385 samples"),
        ("depthwise_conv2d --K 64", "--K: must be at most 63, but is 64"),
        ("conv1d --svg /no/such/folder/l.svg", "--svg: there is no folder /no/such/folder"),
        ("nosuch", "No such command 'nosuch'"),
    ],
)
def test_ladder_command_refuses_bad_options_in_one_line(
    shell: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: str,
    says: str,
) -> None:
    shell.setattr(sys, "argv", ["tuner", "ladder", *arguments.split()])
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    said = capsys.readouterr()
    assert exit_.value.code
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert says in said.err
    assert list(tmp_path.iterdir()) == []


def test_failing_rung_is_a_row_with_its_reason(builder: Builder) -> None:
    names = ("right", "wrong", "crash", "unschedulable", "right_again")
    rungs = [planted(name) for name in names]
    climbed = climb(SMALL, detect("cpu"), builder, rungs, settle_seconds=0)
    rows = {row.name.removeprefix("000 "): row for row in climbed.rows}
    assert list(rows)[:5] == list(names)
    assert rows["right"].time_us
    assert (rows["right"].over_naive, rows["right"].t4_us) == (1.0, 7.5)
    assert rows["right"].note is None
    assert "error" in (rows["wrong"].note or "")
    assert "SIGABRT" in (rows["crash"].note or "")
    assert "no such schedule" in (rows["unschedulable"].note or "")
    assert rows["right_again"].note == "the same program here as 000 right"
    assert all(rows[name].time_us is None for name in ("wrong", "crash", "unschedulable"))
    assert rows["right_again"].over_before == pytest.approx(
        rows["right"].time_us / (rows["right_again"].time_us or 0)
    )
    assert rows["best"].note == "not tuned yet: tuner tune conv1d --M 97 --N 7"
    assert rows["numpy.convolve"].time_us


@pytest.mark.timeout(120)
def test_stopped_ladder_kills_the_build_in_progress() -> None:
    """A build in progress is killed if the command is stopped. If it ran on, it would write into a
    folder that is being removed, and the builder's single process would not be free."""
    stop_on_signals()
    timer = Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    with Builder(1, timeout=600) as builder:
        with pytest.raises(Stopped):
            climb(SMALL, detect("cpu"), builder, [planted("endless")], settle_seconds=0)
        timer.join()
        assert builder.call(remote.pid, timeout=60)


def test_a_rung_that_would_take_too_long_is_left_out(builder: Builder, alone: None) -> None:
    large = Conv1dWorkload(M=200_000, N=3)
    rungs = rungs_of("conv1d", "000")[:2]
    climbed = climb(large, detect("cpu"), builder, rungs, settle_seconds=0)
    first, second = climbed.rows[:2]
    assert (first.time_us, first.note) == (
        None,
        "left out: 4.0e+10 multiply-adds a call are too many",
    )
    assert second.time_us
    assert second.over_naive == 1.0


def searched(template: str, trials: int) -> Rung:
    document = operator("conv1d").rungs[0].document
    return Rung("000 search", document, "a search", template, 40.5, trials=trials)


def test_rung_may_be_the_best_of_a_search(builder: Builder, alone: None) -> None:
    rung = searched("templates.conv1d.cpu.direct:CpuDirect", trials=3)
    (row, *_) = climb(SMALL, detect("cpu"), builder, [rung], settle_seconds=0).rows
    assert row.time_us
    assert (row.name, row.what, row.t4_us) == ("000 search", "rung", 40.5)
    assert (row.note or "").startswith('best of 3 trials: {"')
    assert row.max_error is not None and row.max_error <= SMALL.max_error


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("templates.conv1d.cuda.seeds.splits:CudaSplits", "left out: its template does not serve"),
        ("tests.tuner.ladder.planted_rungs:NeverRight", "none of 2 trials worked"),
    ],
)
def test_rung_whose_search_finds_nothing_gives_the_reason(
    builder: Builder, alone: None, template: str, says: str
) -> None:
    (row, *_) = climb(
        SMALL, detect("cpu"), builder, [searched(template, trials=5)], settle_seconds=0
    ).rows
    assert row.time_us is None
    assert says in (row.note or "")


@pytest.mark.parametrize("name", ["conv1d", "depthwise_conv2d"])
def test_rungs_are_selected_by_document(name: str) -> None:
    rungs = operator(name).rungs
    assert rungs_of(name) == rungs
    known = {rung.document.number for rung in rungs}
    assert [r for number in sorted(known) for r in rungs_of(name, number)] == sorted(
        rungs, key=lambda rung: rung.document.number
    )
    with pytest.raises(UnknownDocument, match=f"known are: {rungs[0].document.number}"):
        rungs_of(name, "999")


def drawn() -> Ladder:
    naive = Row("000 naive", "rung", "all <positions>", "000", 1000.0, t4_us=100_000.0)
    rows = (
        naive,
        replace(naive, name="000 v1", time_us=None, note="wrong: by much"),
        Row("best", "best", "tuned", time_us=1.0, over_naive=1000.0),
        Row("floor", "floor", "roofline", time_us=0.5),
    )
    document = operator("conv1d").rungs[0].document
    return Ladder(SMALL, detect("cpu"), rows, (document,), {}, {})


def test_ladder_table_explains_untimed_rungs_and_the_t4_column() -> None:
    console = Console(width=160, file=io.StringIO())
    show_ladder(drawn(), console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "all <positions> (wrong: by much)" in text
    assert "100,000.0" in text
    assert "T4 µs, where given, are for --M 16384 --N 32" in text


def test_the_picture_has_a_bar_for_each_time_on_a_logarithmic_scale() -> None:
    root = ET.fromstring(picture(drawn()))  # noqa: S314
    svg = "{http://www.w3.org/2000/svg}"
    bars = {
        group.findtext(f"{svg}text"): float(group.find(f"{svg}rect").attrib["width"])  # type: ignore[union-attr]
        for group in root.iter(f"{svg}g")
    }
    assert list(bars) == ["000 naive", "best", "floor"]
    # The scale goes from 0.1 to 100,000: a bar of 1000 spans four decades, a bar of 1 one.
    assert bars["000 naive"] / bars["best"] == pytest.approx(4 / 1, abs=0.01)
    assert len(list(root.iter(f"{svg}path"))) == 1
    width = float(root.attrib["width"])
    assert all(float(text.attrib["x"]) < width for text in root.iter(f"{svg}text"))
