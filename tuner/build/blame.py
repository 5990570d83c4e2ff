"""Whose fault a failure is: a candidate's, its job's or this machine's.

Only a candidate's own failure may be stored for good. Only a job's own failure may end the job as
failed: otherwise a worker whose machine lacks something would fail every job in the queue.
"""

from __future__ import annotations

import errno

from tuner.build.linker import must_still_link
from tuner.errors import NoDiskSpace, NoLinker, NotReady, UnusableFile
from tuner.process.scratch import Scratch, must_be_usable
from tuner.process.stopping import check_stopped

MACHINES_OWN = frozenset({errno.EMFILE, errno.ENFILE, errno.EIO})
"""Errors of the operating system that no job causes. They may be over when a check is made."""


def blame_candidate(status: str) -> None:
    """Return if a trial of this status may be stored, so that the job doesn't try it again.

    Raises NoDiskSpace, UnusableFile, NoLinker, or what :func:`check_stopped` raises, if something
    other than the candidate made it fail.
    """
    if status in ("build_error", "run_error", "machine_error"):
        check_stopped()  # a signal that ends this process may have ended its child first
        must_be_usable()
    if status == "machine_error":
        must_still_link()


def blame_job(error: Exception) -> None:
    """Return if an error that ended a job is the job's own. Raises NotReady if it is the machine's.

    The job's files must have been removed: then any other job would lack what is missing now, too.
    """
    of_system = isinstance(error, OSError) and error.errno in MACHINES_OWN
    if of_system or isinstance(error, NoLinker):
        raise NotReady(error) from error
    must_be_ready()


def must_be_ready(scratch: Scratch | None = None) -> None:
    """Raise NotReady if there is no space for a library, or if no library can be linked or loaded.

    If ``scratch`` is gone, it is made again first.
    """
    try:
        if scratch is not None:
            scratch.ensure()
        must_be_usable()
        must_still_link()
    except (NoDiskSpace, NoLinker, OSError, UnusableFile) as error:
        raise NotReady(error) from error
