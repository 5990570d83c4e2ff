"""Add the term ``baselines`` to jobs: which peers their best is compared with."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("baselines", sa.Text(), nullable=False, server_default="all"))
