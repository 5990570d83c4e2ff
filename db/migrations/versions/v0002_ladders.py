"""Ladders: the climbs of the seed documents' steps."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# written out, not imported from db.sql.models: a revision stays as it was released
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "ladders",
        sa.Column("id", ID, primary_key=True),
        sa.Column("workload_id", ID, nullable=False),
        sa.Column("device_id", ID, nullable=False),
        sa.Column("rows", sa.JSON(), nullable=False),
        sa.Column("documents", sa.JSON(), nullable=False),
        sa.Column("clocks", sa.JSON(), nullable=False),
        sa.Column("versions", sa.JSON(), nullable=False),
        sa.Column("climbed_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["workload_id"], ["workloads.id"], name="fk_ladders_workload"),
        sa.ForeignKeyConstraint(["device_id"], ["devices.id"], name="fk_ladders_device"),
        sa.UniqueConstraint("workload_id", "device_id", name="uq_ladders_workload_device"),
        sqlite_autoincrement=True,
    )


def downgrade() -> None:
    raise RuntimeError("take the copy of the database from before the migration")
