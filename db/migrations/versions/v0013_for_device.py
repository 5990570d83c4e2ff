"""Add the term ``for_device`` to jobs: the one device whose workers may take the job."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("for_device", sa.Text()))
