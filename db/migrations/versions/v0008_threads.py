"""A best for each number of threads of a CPU."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

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


_OLD, _NEW = "uq_bests_workload_device", "uq_bests_workload_device_threads"


def upgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        _rebuild()
    else:
        op.add_column("bests", _threads())
        op.drop_constraint(_OLD, "bests", type_="unique")
        op.create_unique_constraint(_NEW, "bests", ["workload_id", "device_id", "threads"])
    _fill()


def _threads() -> sa.Column[int]:
    return sa.Column("threads", sa.Integer(), nullable=False, server_default=sa.text("0"))


def _rebuild() -> None:
    """SQLite can't drop a constraint: both tables are written anew, what refers first to go."""
    connection = op.get_bind()
    metadata = sa.MetaData()
    bests = sa.Table("bests", metadata, autoload_with=connection)
    files = sa.Table("best_artifacts", metadata, autoload_with=connection)
    keys = ("workload_id", "workloads.id"), ("device_id", "devices.id"), ("job_seq", "jobs.seq")
    new_bests = op.create_table(
        "new_bests",
        *(
            sa.Column(c.name, c.type, primary_key=c.primary_key, nullable=c.nullable)
            for c in bests.columns
        ),
        _threads(),
        *(
            sa.ForeignKeyConstraint([own], [their], name=f"fk_bests_{own.split('_')[0]}")
            for own, their in keys
        ),
        sa.UniqueConstraint("workload_id", "device_id", "threads", name=_NEW),
        sqlite_autoincrement=True,
    )
    new_files = op.create_table(
        "new_best_artifacts",
        *(
            sa.Column(c.name, c.type, primary_key=c.primary_key, nullable=c.nullable)
            for c in files.columns
        ),
        sa.ForeignKeyConstraint(["best_id"], ["new_bests.id"], name="fk_best_artifacts_best"),
        sa.ForeignKeyConstraint(
            ["sha256"], ["artifacts.sha256"], name="fk_best_artifacts_artifact"
        ),
    )
    for old, new in ((bests, new_bests), (files, new_files)):
        names = [column.name for column in old.columns]
        connection.execute(new.insert().from_select(names, sa.select(*old.columns)))
    # a deleted best's number never comes back: cursors hold it
    connection.execute(
        sa.text(
            "UPDATE sqlite_sequence SET seq = (SELECT seq FROM sqlite_sequence "
            "WHERE name = 'bests') WHERE name = 'new_bests'"
        )
    )
    op.drop_table("best_artifacts")
    op.drop_table("bests")
    op.rename_table("new_bests", "bests")
    op.rename_table("new_best_artifacts", "best_artifacts")
    op.create_index("ix_best_artifacts_sha256", "best_artifacts", ["sha256"])


def _fill() -> None:
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


def downgrade() -> None:
    raise RuntimeError("take the copy of the database from before the migration")
