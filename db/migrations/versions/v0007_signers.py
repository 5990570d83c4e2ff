"""The public keys of those who sign manifests. A signature is an artifact like others."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "signers",
        sa.Column("public_key", sa.String(64), primary_key=True),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
    )


def downgrade() -> None:
    raise RuntimeError("take the copy of the database from before the migration")
