"""Shapes that are tuned again after an upgrade of TVM."""

from pathlib import Path

from processes import Database
from runs import Bench
from sqlalchemy import update

from db.sql.tables import bests, trials
from tests.tuner.measure.planted import PlantedHungry

SHAPE = {"M": 64, "N": 8}


def test_best_of_another_tvm_version_is_rebuilt_for_the_last_round(
    database: Database, bench: Bench, tmp_path: Path
) -> None:
    """The best is built anew although the new search does not find it.

    So an unlucky search loses no best.
    """
    (tmp_path / "enough").touch()
    template = PlantedHungry(tmp_path)
    job = database.submit(SHAPE, trials=2, search="grid")
    assert bench.run(database, job, among=[template]).state == "succeeded"
    with database.engine.begin() as connection:
        config = template.config(str(tmp_path))
        connection.execute(update(bests).values(tvm_version="0.1", config=config))
        connection.execute(update(trials).values(tvm_version="0.1"))
    built = tmp_path / "tries"
    built.unlink()
    later = database.submit(SHAPE, trials=1, search="grid", on_existing="retune")
    assert bench.run(database, later, among=[template]).state == "succeeded"
    assert [trial.config["behaviour"] for trial in database.trials(later)] == ["right"]
    assert built.read_text() == "tried\n"
