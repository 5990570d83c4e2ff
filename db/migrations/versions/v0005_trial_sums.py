"""What the trials of each job come to, kept beside them: metrics count no millions of rows."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

# written out, not imported from db.sql.models: a revision stays as it was released
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
PHASES = ("schedule", "build", "check", "run")


def upgrade() -> None:
    sums = op.create_table(
        "trial_sums",
        sa.Column("job_seq", ID, primary_key=True),
        sa.Column("status", sa.Text(), primary_key=True),
        sa.Column("trials", sa.Integer(), nullable=False),
        *(sa.Column(f"{phase}_seconds", sa.Double(), nullable=False) for phase in PHASES),
        sa.ForeignKeyConstraint(["job_seq"], ["jobs.seq"], name="fk_trial_sums_job"),
    )
    trials = sa.table(
        "trials", sa.column("job_seq"), sa.column("status"), sa.column("seconds", sa.JSON())
    )
    spent = (
        sa.func.coalesce(sa.func.sum(trials.c.seconds[phase].as_float()), 0.0) for phase in PHASES
    )
    stored = sa.select(trials.c.job_seq, trials.c.status, sa.func.count(), *spent).group_by(
        trials.c.job_seq, trials.c.status
    )
    op.execute(sums.insert().from_select([column.name for column in sums.columns], stored))


def downgrade() -> None:
    raise RuntimeError("take the copy of the database from before the migration")
