"""API keys, and who ordered a job."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

# written out, not imported from db.sql.models: a revision stays as it was released
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
UNREVOKED = sa.text("revoked_at IS NULL")


def upgrade() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", ID, primary_key=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=True),
        sa.Column("revoked_at", sa.Double(), nullable=True),
        sa.UniqueConstraint("hash", name="uq_api_keys_hash"),
        sa.CheckConstraint("scope IN ('read', 'submit', 'admin')", name="ck_api_keys_scope"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "uq_api_keys_name",
        "api_keys",
        ["name"],
        unique=True,
        sqlite_where=UNREVOKED,
        postgresql_where=UNREVOKED,
    )
    op.add_column("jobs", sa.Column("ordered_by", sa.Text(), nullable=True))


def downgrade() -> None:
    raise RuntimeError("take the copy of the database from before the migration")
