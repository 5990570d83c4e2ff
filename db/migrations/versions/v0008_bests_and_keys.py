"""A best for each number of threads of a CPU, and for each restriction of an order to templates.
Idempotency keys belong to who sent them, and are forgotten after a day."""

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

_BESTS = sa.table(
    "bests",
    sa.column("id", sa.BigInteger()),
    sa.column("device_id", sa.BigInteger()),
    sa.column("config", sa.JSON()),
    sa.column("threads", sa.Integer()),
)
_DEVICES = sa.table(
    "devices",
    sa.column("id", sa.BigInteger()),
    sa.column("kind", sa.Text()),
    sa.column("limits", sa.JSON()),
)


def upgrade() -> None:
    op.add_column("jobs", sa.Column("templates", sa.JSON(), nullable=True))
    with (
        _replaceable(),
        op.batch_alter_table("bests", table_kwargs={"sqlite_autoincrement": True}) as bests,
    ):
        bests.add_column(sa.Column("threads", sa.Integer(), nullable=False, server_default="0"))
        bests.add_column(sa.Column("templates", sa.Text(), nullable=False, server_default=""))
        bests.drop_constraint("uq_bests_workload_device", type_="unique")
        bests.create_unique_constraint(
            "uq_bests_workload_device", ["workload_id", "device_id", "threads", "templates"]
        )
    _fill_threads()
    _own_keys()


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
    # a deleted best's number never comes back: cursors hold it
    op.execute(
        "UPDATE sqlite_sequence SET seq = (SELECT seq FROM last) "
        "WHERE name = 'bests' AND EXISTS (SELECT 1 FROM last)"
    )
    op.execute("DROP TABLE kept")
    op.execute("DROP TABLE last")


def _fill_threads() -> None:
    """Of a CPU's bests, by their knob."""
    connection = op.get_bind()
    rows = connection.execute(
        sa.select(_BESTS.c.id, _BESTS.c.config, _DEVICES.c.limits)
        .join(_DEVICES, _DEVICES.c.id == _BESTS.c.device_id)
        .where(_DEVICES.c.kind == "cpu")
    ).all()
    for best_id, config, limits in rows:
        threads = int(limits.get("units", 1)) if config.get("threading") == "parallel" else 1
        connection.execute(sa.update(_BESTS).where(_BESTS.c.id == best_id).values(threads=threads))


def _own_keys() -> None:
    op.execute(
        "CREATE TABLE idempotency_keys_before AS "
        "SELECT coalesce(jobs.ordered_by, '') AS ordered_by, k.key AS key, k.order_key, k.job_seq, "
        "k.created_at FROM idempotency_keys k JOIN jobs ON jobs.seq = k.job_seq"
    )
    op.drop_table("idempotency_keys")
    op.create_table(
        "idempotency_keys",
        sa.Column("ordered_by", sa.Text(), primary_key=True),
        sa.Column("key", sa.Text(), primary_key=True),
        sa.Column("order_key", sa.String(64), nullable=False),
        sa.Column("job_seq", ID, nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["job_seq"], ["jobs.seq"], name="fk_idempotency_keys_job"),
    )
    op.create_index("ix_idempotency_keys_created", "idempotency_keys", ["created_at"])
    op.execute(
        "INSERT INTO idempotency_keys (ordered_by, key, order_key, job_seq, created_at) "
        "SELECT ordered_by, key, order_key, job_seq, created_at FROM idempotency_keys_before"
    )
    op.drop_table("idempotency_keys_before")


def downgrade() -> None:
    raise RuntimeError("take the copy of the database from before the migration")
