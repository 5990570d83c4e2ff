"""Add the times of peers, which later jobs of the same workload reuse."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "peer_times",
        sa.Column("id", ID, primary_key=True),
        sa.Column("workload_id", ID, nullable=False),
        sa.Column("device_id", ID, nullable=False),
        sa.Column("baselines", sa.Text(), nullable=False),
        sa.Column("versions", sa.JSON(), nullable=False),
        sa.Column("rows", sa.JSON(), nullable=False),
        sa.Column("measured_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["workload_id"], ["workloads.id"], name="fk_peer_times_workload"),
        sa.ForeignKeyConstraint(["device_id"], ["devices.id"], name="fk_peer_times_device"),
        sa.UniqueConstraint(
            "workload_id", "device_id", "baselines", name="uq_peer_times_workload_device"
        ),
    )
