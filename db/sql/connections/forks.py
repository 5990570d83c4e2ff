"""Engines of a process that forks: the child opens connections of its own.

On a shared connection, each of two processes would read results of the other's queries. SQLite also
keeps its locks in memory, by file. A child that inherits them believes that it holds locks which
only its parent has, and may lose what it writes (https://www.sqlite.org/howtocorrupt.html, section
2.6). So connections to SQLite are closed before a fork. If another thread uses one meanwhile, the
child can't use SQLite."""

import os
from typing import Any
from weakref import WeakSet

from sqlalchemy import Engine, Pool, event

from db.sql.errors import DatabaseUnavailable
from db.sql.url import without_passwords

_engines: WeakSet[Engine] = WeakSet()
_inherited: list[Pool] = []
"""Pools of the parent. They are kept, because to collect them would close its connections."""
_is_sqlite_in_use = False
"""Whether a thread used SQLite when this process was forked."""


def let_fork(engine: Engine) -> None:
    """Have the engine open connections of its own in each process that is forked from this one.

    Connecting to SQLite raises DatabaseUnavailable in a process that was forked while another
    thread used it."""
    _engines.add(engine)
    if engine.dialect.name == "sqlite":

        @event.listens_for(engine, "do_connect")
        def refuse(*_: Any) -> None:
            if _is_sqlite_in_use:
                raise DatabaseUnavailable(
                    without_passwords(engine.url),
                    "this process was forked while another thread used the database, and SQLite "
                    "does not allow that; fork earlier, or start the process by spawn",
                )


def _close_idle_connections() -> None:
    for engine in _of_sqlite():
        if not engine.pool.checkedout():
            engine.dispose()


def _begin_new_pools() -> None:
    global _is_sqlite_in_use  # noqa: PLW0603  # of the process, as SQLite's locks are
    if any(engine.pool.checkedin() or engine.pool.checkedout() for engine in _of_sqlite()):
        _is_sqlite_in_use = True
    for engine in _engines:
        _inherited.append(engine.pool)
        engine.dispose(close=False)


def _of_sqlite() -> list[Any]:
    return [engine for engine in _engines if engine.dialect.name == "sqlite"]


os.register_at_fork(before=_close_idle_connections, after_in_child=_begin_new_pools)
