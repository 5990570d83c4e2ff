"""A function that a round's process runs instead of ``load_libraries`` to report its limits."""

import json
import os
from pathlib import Path

from tests.tuner.measure.remote import limits, run_program, variable
from tuner.compare.stage import Prepared
from tuner.measure.trial import RunOrder


def load_and_tell(order: RunOrder, libraries: dict[str, Path]) -> Prepared:
    """Write this process's limits, its database URL and a program's exit code as JSON to the file
    that the environment variable TOLD names; load nothing."""
    told = {**limits(), "TUNER_DATABASE_URL": variable("TUNER_DATABASE_URL")}
    Path(os.environ["TOLD"]).write_text(json.dumps({**told, "program": run_program()}))
    return Prepared({}, {})
