"""Jobs that measure a list of configurations brought from elsewhere."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

# written out, not imported from db.sql.models: a revision stays as it was released
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "listed_configs",
        sa.Column("job_seq", ID, primary_key=True),
        sa.Column("place", sa.Integer(), primary_key=True),
        sa.Column("template_version", sa.Integer(), nullable=False),
        sa.Column("config", sa.JSON(), nullable=False),
        sa.Column("source", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["job_seq"], ["jobs.seq"], name="fk_listed_configs_job"),
    )


def downgrade() -> None:
    raise RuntimeError("take the copy of the database from before the migration")
