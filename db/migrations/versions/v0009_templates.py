"""Orders that are restricted to some templates, and a best of their own for each restriction."""

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("templates", sa.JSON(), nullable=True))
    with (
        _replaceable(),
        op.batch_alter_table("bests", table_kwargs={"sqlite_autoincrement": True}) as bests,
    ):
        bests.add_column(sa.Column("templates", sa.Text(), nullable=False, server_default=""))
        bests.drop_constraint("uq_bests_workload_device", type_="unique")
        bests.create_unique_constraint(
            "uq_bests_workload_device", ["workload_id", "device_id", "templates"]
        )


def downgrade() -> None:
    raise RuntimeError("take the copy of the database from before the migration")


@contextmanager
def _replaceable() -> Iterator[None]:
    """SQLite can't change a constraint: the table is made anew, while no row refers to it."""
    if op.get_bind().dialect.name != "sqlite":
        yield
        return
    op.execute("CREATE TEMPORARY TABLE kept AS SELECT * FROM best_artifacts")
    op.execute(
        "CREATE TEMPORARY TABLE last AS SELECT seq FROM sqlite_sequence WHERE name = 'bests'"
    )
    op.execute("DELETE FROM best_artifacts")
    yield
    op.execute("INSERT INTO best_artifacts SELECT * FROM kept")
    op.execute(
        "UPDATE sqlite_sequence SET seq = (SELECT seq FROM last) "
        "WHERE name = 'bests' AND EXISTS (SELECT 1 FROM last)"
    )
    op.execute("DROP TABLE kept")
    op.execute("DROP TABLE last")
