"""Add models, which are orders of many workloads, and their layers, which refer to jobs."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "models",
        sa.Column("seq", ID, primary_key=True),
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("terms", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("cancelled_at", sa.Double(), nullable=True),
        sa.UniqueConstraint("id", name="uq_models_id"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "model_layers",
        sa.Column("model_seq", ID, primary_key=True),
        sa.Column("place", sa.Integer(), primary_key=True),
        sa.Column("job_seq", ID, nullable=False),
        sa.Column("calls", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["model_seq"], ["models.seq"], name="fk_model_layers_model"),
        sa.ForeignKeyConstraint(["job_seq"], ["jobs.seq"], name="fk_model_layers_job"),
    )
    op.create_index("ix_model_layers_job", "model_layers", ["job_seq"])
    # jobs from before models existed were each ordered by themselves
    op.add_column(
        "jobs", sa.Column("own_order", sa.Boolean(), nullable=False, server_default=sa.true())
    )
    with op.batch_alter_table("idempotency_keys") as keys:
        keys.alter_column("job_seq", existing_type=ID, nullable=True)
        keys.add_column(sa.Column("model_seq", ID, nullable=True))
        keys.create_foreign_key("fk_idempotency_keys_model", "models", ["model_seq"], ["seq"])
        keys.create_check_constraint(
            "ck_idempotency_keys_one", "(job_seq IS NULL) <> (model_seq IS NULL)"
        )
