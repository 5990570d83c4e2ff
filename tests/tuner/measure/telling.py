"""In place of what a round's process is first asked to do: it tells of itself."""

import json
import os
from pathlib import Path

from tests.tuner.measure.remote import limits, run_program, variable
from tuner.compare.stage import Prepared
from tuner.measure.trial import RunOrder


def prepare_and_tell(order: RunOrder, libraries: dict[str, Path]) -> Prepared:
    """Into the file that the variable TOLD names."""
    told = {**limits(), "TUNER_DATABASE_URL": variable("TUNER_DATABASE_URL")}
    Path(os.environ["TOLD"]).write_text(json.dumps({**told, "program": run_program()}))
    return Prepared({}, {})
