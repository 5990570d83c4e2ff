"""A user's own name for a job."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("label", sa.Text(), nullable=True))
    op.add_column("jobs", sa.Column("label_folded", sa.Text(), nullable=True))
