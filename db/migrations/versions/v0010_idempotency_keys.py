"""Idempotency keys belong to who sent them, and are forgotten after a day."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0007"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
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
