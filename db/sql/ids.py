"""Public ids of jobs and models: 32 hexadecimal digits, which users may abbreviate."""

import re

from sqlalchemy import Engine, Table, select

from db.sql.errors import AmbiguousId, NotFound
from db.sql.transaction import reading


def require_id_format(what: str, given: str) -> str:
    """Return the id if it has the form of an id; raise NotFound for any other text. ``what`` is the
    word for such a row in messages. The row need not exist."""
    if not re.fullmatch("[0-9a-f]{32}", given):
        raise NotFound(what, given)
    return given


def find_by_prefix(engine: Engine, table: Table, what: str, prefix: str) -> str:
    """Return the id of the only row of the table whose id begins with ``prefix``.

    ``what`` is the word for such a row in messages. Raises NotFound, and AmbiguousId if there are
    several."""
    if not re.fullmatch("[0-9a-f]{1,32}", prefix):
        raise NotFound(what, prefix)
    query = select(table.c.id).where(table.c.id.startswith(prefix)).order_by(table.c.seq.desc())
    with reading(engine) as connection:
        found = connection.execute(query.limit(3)).scalars().all()
    if not found:
        raise NotFound(what, prefix)
    if len(found) > 1:
        raise AmbiguousId(what, prefix, found)
    return str(found[0])
