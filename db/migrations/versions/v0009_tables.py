"""Create the tables of the first release. The eight revisions before it were never released, and
databases that have one of them are refused (db/sql/schema.py)."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = None
branch_labels = None
depends_on = None

# written out instead of imported from db.sql.tables, because a released revision must not change
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
UNENDED = sa.text("state IN ('queued', 'running')")
ENDED = sa.text("state IN ('succeeded', 'failed', 'cancelled')")
JOINABLE = sa.text("state IN ('queued', 'running') AND NOT cancel_requested")
UNREVOKED = sa.text("revoked_at IS NULL")


def _need(name: str, kind: sa.types.TypeEngine[Any], default: Any = None) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False, server_default=default)


def _may(name: str, kind: sa.types.TypeEngine[Any]) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=True)


def _refers(table: str, column: str, to: str) -> sa.ForeignKeyConstraint:
    name = f"fk_{table}_{column.removesuffix('_id').removesuffix('_seq')}"
    return sa.ForeignKeyConstraint([column], [to], name=name)


def upgrade() -> None:
    _devices_and_workloads()
    _jobs()
    _of_jobs()
    _trials()
    _bests()
    _ladders()
    _workers_and_keys()


def _devices_and_workloads() -> None:
    op.create_table(
        "devices",
        sa.Column("id", ID, primary_key=True),
        _need("identity", sa.String(64)),
        _need("kind", sa.Text()),
        _need("name", sa.Text()),
        _need("arch", sa.Text()),
        _need("memory_bytes", sa.BigInteger()),
        _need("driver", sa.Text()),
        _need("limits", sa.JSON()),
        sa.UniqueConstraint("identity", name="uq_devices_identity"),
    )
    op.create_table(
        "workloads",
        sa.Column("id", ID, primary_key=True),
        _need("key", sa.Text()),
        _need("operator", sa.Text()),
        _need("workload", sa.JSON()),
        sa.UniqueConstraint("key", name="uq_workloads_key"),
    )
    op.create_index("ix_workloads_operator", "workloads", ["operator"])


def _jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("seq", ID, primary_key=True),
        _need("id", sa.String(32)),
        _need("order_key", sa.String(64)),
        _need("workload_id", ID),
        _need("target", sa.Text()),
        _need("search", sa.Text()),
        _need("on_existing", sa.Text()),
        _need("trials_requested", sa.Integer()),
        _may("budget_seconds", sa.Double()),
        _may("seed", sa.BigInteger()),
        _need("state", sa.Text()),
        _need("cancel_requested", sa.Boolean()),
        _need("attempt", sa.Integer()),
        _need("released", sa.Integer()),
        _may("worker", sa.Text()),
        _may("lease_expires_at", sa.Double()),
        _need("trials_measured", sa.Integer()),
        _need("trials_ok", sa.Integer()),
        _need("trials_failed", sa.Integer()),
        _may("device_id", ID),
        _may("best", sa.JSON()),
        _may("eta_seconds", sa.Double()),
        _may("error", sa.Text()),
        _need("created_at", sa.Double()),
        _may("started_at", sa.Double()),
        _may("finished_at", sa.Double()),
        _may("patience", sa.Integer()),
        _need("warm_start", sa.Boolean(), sa.true()),
        _may("warmed", sa.JSON()),
        _may("ordered_by", sa.Text()),
        _may("templates", sa.JSON()),
        _may("label", sa.Text()),
        _may("label_folded", sa.Text()),
        _refers("jobs", "workload_id", "workloads.id"),
        _refers("jobs", "device_id", "devices.id"),
        sa.UniqueConstraint("id", name="uq_jobs_id"),
        sa.CheckConstraint(
            "state IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')",
            name="ck_jobs_state",
        ),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_jobs_claim", "jobs", ["seq"], sqlite_where=UNENDED, postgresql_where=UNENDED
    )
    op.create_index(
        "uq_jobs_order",
        "jobs",
        ["order_key"],
        unique=True,
        sqlite_where=JOINABLE,
        postgresql_where=JOINABLE,
    )
    op.create_index(
        "ix_jobs_ended", "jobs", ["state", "seq"], sqlite_where=ENDED, postgresql_where=ENDED
    )
    op.create_index("ix_jobs_workload", "jobs", ["workload_id"])


def _of_jobs() -> None:
    op.create_table(
        "idempotency_keys",
        sa.Column("ordered_by", sa.Text(), primary_key=True),
        sa.Column("key", sa.Text(), primary_key=True),
        _need("order_key", sa.String(64)),
        _need("job_seq", ID),
        _need("created_at", sa.Double()),
        _refers("idempotency_keys", "job_seq", "jobs.seq"),
    )
    op.create_index("ix_idempotency_keys_created", "idempotency_keys", ["created_at"])
    op.create_table(
        "listed_configs",
        sa.Column("job_seq", ID, primary_key=True),
        sa.Column("place", sa.Integer(), primary_key=True),
        _need("template_version", sa.Integer()),
        _need("config", sa.JSON()),
        _need("source", sa.JSON()),
        _refers("listed_configs", "job_seq", "jobs.seq"),
    )


def _trials() -> None:
    op.create_table(
        "trials",
        sa.Column("id", ID, primary_key=True),
        _need("job_seq", ID),
        _need("number", sa.Integer()),
        _need("workload_id", ID),
        _need("device_id", ID),
        _need("tvm_version", sa.Text()),
        _need("template", sa.Text()),
        _need("template_version", sa.Integer()),
        _need("config_key", sa.String(32)),
        _need("config", sa.JSON()),
        _need("status", sa.Text()),
        _may("time_us", sa.Double()),
        _may("timing", sa.JSON()),
        _may("max_error", sa.Double()),
        _may("error", sa.Text()),
        _need("seconds", sa.JSON()),
        _need("created_at", sa.Double()),
        _refers("trials", "job_seq", "jobs.seq"),
        _refers("trials", "workload_id", "workloads.id"),
        _refers("trials", "device_id", "devices.id"),
        sa.UniqueConstraint("job_seq", "number", name="uq_trials_number"),
        sa.UniqueConstraint(
            "workload_id",
            "device_id",
            "tvm_version",
            "template",
            "template_version",
            "config_key",
            name="uq_trials_measured_once",
        ),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "trial_sums",
        sa.Column("job_seq", ID, primary_key=True),
        sa.Column("status", sa.Text(), primary_key=True),
        _need("trials", sa.Integer()),
        _need("schedule_seconds", sa.Double()),
        _need("build_seconds", sa.Double()),
        _need("check_seconds", sa.Double()),
        _need("run_seconds", sa.Double()),
        _refers("trial_sums", "job_seq", "jobs.seq"),
    )


def _bests() -> None:
    op.create_table(
        "artifacts",
        sa.Column("sha256", sa.String(64), primary_key=True),
        _need("size", sa.BigInteger()),
        _need("kind", sa.Text()),
        _need("media_type", sa.Text()),
        _need("content", sa.LargeBinary()),
        _need("created_at", sa.Double()),
    )
    op.create_table(
        "bests",
        sa.Column("id", ID, primary_key=True),
        _need("workload_id", ID),
        _need("device_id", ID),
        _need("job_seq", ID),
        _need("template", sa.Text()),
        _need("template_version", sa.Integer()),
        _need("tvm_version", sa.Text()),
        _need("config", sa.JSON()),
        _need("time_us", sa.Double()),
        _need("timing", sa.JSON()),
        _may("gflops", sa.Double()),
        _need("roofline", sa.JSON()),
        _may("max_error", sa.Double()),
        _need("baselines", sa.JSON()),
        _need("trials_measured", sa.Integer()),
        _need("versions", sa.JSON()),
        _need("tuned_at", sa.Double()),
        _need("threads", sa.Integer(), "0"),
        _need("templates", sa.Text(), ""),
        _refers("bests", "workload_id", "workloads.id"),
        _refers("bests", "device_id", "devices.id"),
        _refers("bests", "job_seq", "jobs.seq"),
        sa.UniqueConstraint(
            "workload_id", "device_id", "threads", "templates", name="uq_bests_workload_device"
        ),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "best_artifacts",
        sa.Column("best_id", ID, primary_key=True),
        sa.Column("kind", sa.Text(), primary_key=True),
        _need("sha256", sa.String(64)),
        _refers("best_artifacts", "best_id", "bests.id"),
        sa.ForeignKeyConstraint(
            ["sha256"], ["artifacts.sha256"], name="fk_best_artifacts_artifact"
        ),
    )
    op.create_index("ix_best_artifacts_sha256", "best_artifacts", ["sha256"])


def _ladders() -> None:
    op.create_table(
        "ladders",
        sa.Column("id", ID, primary_key=True),
        _need("workload_id", ID),
        _need("device_id", ID),
        _need("rows", sa.JSON()),
        _need("documents", sa.JSON()),
        _need("clocks", sa.JSON()),
        _need("versions", sa.JSON()),
        _need("climbed_at", sa.Double()),
        _refers("ladders", "workload_id", "workloads.id"),
        _refers("ladders", "device_id", "devices.id"),
        sa.UniqueConstraint("workload_id", "device_id", name="uq_ladders_workload_device"),
        sqlite_autoincrement=True,
    )


def _workers_and_keys() -> None:
    op.create_table(
        "signers",
        sa.Column("public_key", sa.String(64), primary_key=True),
        _need("host", sa.Text()),
        _need("created_at", sa.Double()),
    )
    op.create_table(
        "api_keys",
        sa.Column("id", ID, primary_key=True),
        _need("name", sa.Text()),
        _need("hash", sa.String(64)),
        _need("scope", sa.Text()),
        _need("created_at", sa.Double()),
        _may("expires_at", sa.Double()),
        _may("revoked_at", sa.Double()),
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
    op.create_table(
        "workers",
        sa.Column("name", sa.Text(), primary_key=True),
        _need("host", sa.Text()),
        _need("pid", sa.Integer()),
        _may("device_id", ID),
        _need("version", sa.Text()),
        _may("job_id", sa.String(32)),
        _need("started_at", sa.Double()),
        _need("seen_at", sa.Double()),
        _refers("workers", "device_id", "devices.id"),
    )
