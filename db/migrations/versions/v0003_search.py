"""When a search stops, and what it starts from."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("patience", sa.Integer(), nullable=True))
    op.add_column(
        "jobs", sa.Column("warm_start", sa.Boolean(), nullable=False, server_default=sa.true())
    )
    op.add_column("jobs", sa.Column("warmed", sa.JSON(), nullable=True))


def downgrade() -> None:
    raise RuntimeError("take the copy of the database from before the migration")
