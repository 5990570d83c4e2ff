"""Ids that the outside sees: 32 hexadecimal digits, of which people may give the beginning."""

import re

from sqlalchemy import Engine, Table, select

from db.sql.errors import AmbiguousId, NotFound
from db.sql.transaction import reading


def known(what: str, given: str) -> str:
    """The id itself; raises NotFound for what nothing can be called, whatever bytes it holds."""
    if not re.fullmatch("[0-9a-f]{32}", given):
        raise NotFound(what, given)
    return given


def begun(engine: Engine, table: Table, what: str, start: str) -> str:
    """The id of the one row whose id begins so. Raises NotFound, AmbiguousId."""
    if not re.fullmatch("[0-9a-f]{1,32}", start):
        raise NotFound(what, start)
    query = select(table.c.id).where(table.c.id.startswith(start)).order_by(table.c.seq.desc())
    with reading(engine) as connection:
        found = connection.execute(query.limit(3)).scalars().all()
    if not found:
        raise NotFound(what, start)
    if len(found) > 1:
        raise AmbiguousId(what, start, found)
    return str(found[0])
