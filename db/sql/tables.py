"""The tables. Times are seconds since 1970 by the database's clock.

A change here needs a new file in db/migrations/versions, because the migrations build the same
tables."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
    true,
)

from db.sql.columns import BigId, Finite, FreeText

# literal SQL: both databases use a partial index only if a query repeats its condition literally
UNENDED = text("state IN ('queued', 'running')")
ENDED = text("state IN ('succeeded', 'failed', 'cancelled')")
JOINABLE = text("state IN ('queued', 'running') AND NOT cancel_requested")
UNREVOKED = text("revoked_at IS NULL")

metadata = MetaData()

devices = Table(
    "devices",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("identity", String(64), nullable=False),  # sha256 of the fingerprint without limits
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("arch", Text, nullable=False),
    Column("memory_bytes", BigInteger, nullable=False),
    Column("driver", Text, nullable=False),
    Column("limits", JSON, nullable=False),
    UniqueConstraint("identity", name="uq_devices_identity"),
)

workloads = Table(
    "workloads",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("key", Text, nullable=False),
    Column("operator", Text, nullable=False),
    Column("workload", JSON, nullable=False),
    UniqueConstraint("key", name="uq_workloads_key"),
    Index("ix_workloads_operator", "operator"),
)

jobs = Table(
    "jobs",
    metadata,
    Column("seq", BigId, primary_key=True),  # order of submission; clocks can step back
    Column("id", String(32), nullable=False),
    Column("order_key", String(64), nullable=False),  # of the order, by queue.submit.hash_fields
    Column("workload_id", ForeignKey("workloads.id", name="fk_jobs_workload"), nullable=False),
    Column("target", Text, nullable=False),
    Column("for_device", Text),  # its name; null: any of the target's kind
    Column("search", Text, nullable=False),
    Column("on_existing", Text, nullable=False),
    Column("trials_requested", Integer, nullable=False),
    Column("budget_seconds", Double),
    Column("patience", Integer),
    Column("warm_start", Boolean, nullable=False, server_default=true()),
    Column("templates", JSON(none_as_null=True)),  # names, sorted; null: all that apply
    Column("baselines", Text, nullable=False, server_default="all"),
    Column("label", Text),
    Column("label_folded", Text),  # for searches in any case: SQLite's lower() knows only ASCII
    Column("seed", BigInteger),
    Column("state", Text, nullable=False),
    Column("cancel_requested", Boolean, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("released", Integer, nullable=False),
    Column("worker", Text),
    Column("lease_expires_at", Double),
    Column("trials_measured", Integer, nullable=False),
    Column("trials_ok", Integer, nullable=False),
    Column("trials_failed", Integer, nullable=False),
    Column("device_id", ForeignKey("devices.id", name="fk_jobs_device")),
    Column("best", JSON(none_as_null=True)),
    Column("warmed", JSON(none_as_null=True)),
    Column("eta_seconds", Finite),
    Column("error", FreeText),
    Column("ordered_by", Text),  # the orderer's name (db/access/quota.py); null if there is none
    # false if only models ordered the job, which is then cancelled with the last of them
    Column("own_order", Boolean, nullable=False, server_default=true()),
    Column("created_at", Double, nullable=False),
    Column("started_at", Double),
    Column("finished_at", Double),
    UniqueConstraint("id", name="uq_jobs_id"),
    CheckConstraint(
        "state IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')", name="ck_jobs_state"
    ),
    Index("ix_jobs_claim", "seq", sqlite_where=UNENDED, postgresql_where=UNENDED),
    Index(
        "uq_jobs_order",
        "order_key",
        unique=True,
        sqlite_where=JOINABLE,
        postgresql_where=JOINABLE,
    ),
    # ended jobs only: SQLite would use an index of all states for a claim, and sort the queue
    Index("ix_jobs_ended", "state", "seq", sqlite_where=ENDED, postgresql_where=ENDED),
    Index("ix_jobs_workload", "workload_id"),
    sqlite_autoincrement=True,  # a deleted job's number never comes back: cursors hold it
)

models = Table(
    "models",
    metadata,
    Column("seq", BigId, primary_key=True),
    Column("id", String(32), nullable=False),
    Column("name", Text, nullable=False),
    Column("terms", JSON, nullable=False),  # the terms on which each of its jobs was ordered
    Column("created_at", Double, nullable=False),
    Column("cancelled_at", Double),  # when somebody cancelled it; its jobs may end later
    UniqueConstraint("id", name="uq_models_id"),
    sqlite_autoincrement=True,  # a deleted model's number never comes back: cursors hold it
)

model_layers = Table(
    "model_layers",
    metadata,
    Column("model_seq", ForeignKey("models.seq", name="fk_model_layers_model"), primary_key=True),
    Column("place", Integer, primary_key=True),  # from 0 within its model
    Column("job_seq", ForeignKey("jobs.seq", name="fk_model_layers_job"), nullable=False),
    Column("calls", Integer, nullable=False),
    Index("ix_model_layers_job", "job_seq"),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("ordered_by", Text, primary_key=True),  # as in jobs, but empty if there is no orderer
    Column("key", Text, primary_key=True),
    Column("order_key", String(64), nullable=False),
    Column("job_seq", ForeignKey("jobs.seq", name="fk_idempotency_keys_job")),
    Column("model_seq", ForeignKey("models.seq", name="fk_idempotency_keys_model")),
    Column("created_at", Double, nullable=False),
    CheckConstraint("(job_seq IS NULL) <> (model_seq IS NULL)", name="ck_idempotency_keys_one"),
    Index("ix_idempotency_keys_created", "created_at"),
)

MEASURED_ONCE = (
    "workload_id",
    "device_id",
    "tvm_version",
    "template",
    "template_version",
    "config_key",
)
"""The columns that together identify a trial, which is stored once."""

trials = Table(
    "trials",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("job_seq", ForeignKey("jobs.seq", name="fk_trials_job"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("workload_id", ForeignKey("workloads.id", name="fk_trials_workload"), nullable=False),
    Column("device_id", ForeignKey("devices.id", name="fk_trials_device"), nullable=False),
    Column("tvm_version", Text, nullable=False),
    Column("template", Text, nullable=False),
    Column("template_version", Integer, nullable=False),
    Column("config_key", String(32), nullable=False),
    Column("config", JSON, nullable=False),
    Column("status", Text, nullable=False),
    Column("time_us", Finite),
    Column("timing", JSON(none_as_null=True)),
    Column("max_error", Finite),
    Column("error", FreeText),
    Column("seconds", JSON, nullable=False),
    Column("created_at", Double, nullable=False),
    UniqueConstraint("job_seq", "number", name="uq_trials_number"),
    UniqueConstraint(*MEASURED_ONCE, name="uq_trials_measured_once"),
    sqlite_autoincrement=True,
)

trial_sums = Table(
    "trial_sums",
    metadata,
    Column("job_seq", ForeignKey("jobs.seq", name="fk_trial_sums_job"), primary_key=True),
    Column("status", Text, primary_key=True),
    Column("trials", Integer, nullable=False),
    Column("schedule_seconds", Double, nullable=False),
    Column("build_seconds", Double, nullable=False),
    Column("check_seconds", Double, nullable=False),
    Column("run_seconds", Double, nullable=False),
)

artifacts = Table(
    "artifacts",
    metadata,
    Column("sha256", String(64), primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("media_type", Text, nullable=False),
    Column("content", LargeBinary, nullable=False),
    Column("created_at", Double, nullable=False),
)

bests = Table(
    "bests",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("workload_id", ForeignKey("workloads.id", name="fk_bests_workload"), nullable=False),
    Column("device_id", ForeignKey("devices.id", name="fk_bests_device"), nullable=False),
    Column("job_seq", ForeignKey("jobs.seq", name="fk_bests_job"), nullable=False),
    # the templates that its order was restricted to, joined by commas; empty if it was not
    Column("templates", Text, nullable=False, server_default=""),
    Column("template", Text, nullable=False),
    Column("template_version", Integer, nullable=False),
    Column("tvm_version", Text, nullable=False),
    Column("config", JSON, nullable=False),
    Column("time_us", Double, nullable=False),
    Column("timing", JSON, nullable=False),
    Column("gflops", Finite),
    Column("roofline", JSON, nullable=False),
    Column("max_error", Finite),
    Column("baselines", JSON, nullable=False),
    Column("trials_measured", Integer, nullable=False),
    Column("versions", JSON, nullable=False),
    Column("tuned_at", Double, nullable=False),
    Column("threads", Integer, nullable=False, server_default=text("0")),  # 0 on a GPU
    UniqueConstraint(
        "workload_id", "device_id", "threads", "templates", name="uq_bests_workload_device"
    ),
    sqlite_autoincrement=True,
)

best_artifacts = Table(
    "best_artifacts",
    metadata,
    Column("best_id", ForeignKey("bests.id", name="fk_best_artifacts_best"), primary_key=True),
    Column("kind", Text, primary_key=True),
    Column(
        "sha256",
        ForeignKey("artifacts.sha256", name="fk_best_artifacts_artifact"),
        nullable=False,
    ),
    Index("ix_best_artifacts_sha256", "sha256"),
)

peer_times = Table(
    "peer_times",
    metadata,
    Column("id", BigId, primary_key=True),
    Column(
        "workload_id", ForeignKey("workloads.id", name="fk_peer_times_workload"), nullable=False
    ),
    Column("device_id", ForeignKey("devices.id", name="fk_peer_times_device"), nullable=False),
    Column("baselines", Text, nullable=False),  # the orders' term: which peers were timed
    Column("versions", JSON, nullable=False),
    Column("rows", JSON, nullable=False),
    Column("measured_at", Double, nullable=False),
    UniqueConstraint("workload_id", "device_id", "baselines", name="uq_peer_times_workload_device"),
)

ladders = Table(
    "ladders",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("workload_id", ForeignKey("workloads.id", name="fk_ladders_workload"), nullable=False),
    Column("device_id", ForeignKey("devices.id", name="fk_ladders_device"), nullable=False),
    Column("rows", JSON, nullable=False),
    Column("documents", JSON, nullable=False),
    Column("clocks", JSON, nullable=False),
    Column("versions", JSON, nullable=False),
    Column("climbed_at", Double, nullable=False),
    UniqueConstraint("workload_id", "device_id", name="uq_ladders_workload_device"),
    sqlite_autoincrement=True,  # a replaced ladder's number never comes back: cursors hold it
)

listed_configs = Table(
    "listed_configs",
    metadata,
    Column("job_seq", ForeignKey("jobs.seq", name="fk_listed_configs_job"), primary_key=True),
    Column("place", Integer, primary_key=True),  # from 0 within its job
    Column("template_version", Integer, nullable=False),
    Column("config", JSON, nullable=False),
    Column("source", JSON, nullable=False),  # where it comes from, and its result there
)

workers = Table(
    "workers",
    metadata,
    Column("name", Text, primary_key=True),
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("device_id", ForeignKey("devices.id", name="fk_workers_device")),
    Column("version", Text, nullable=False),
    Column("job_id", String(32)),
    Column("started_at", Double, nullable=False),
    Column("seen_at", Double, nullable=False),
)

signers = Table(
    "signers",
    metadata,
    Column("public_key", String(64), primary_key=True),  # Ed25519, hexadecimal
    Column("host", Text, nullable=False),  # the host that registered it first
    Column("created_at", Double, nullable=False),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("name", Text, nullable=False),
    Column("hash", String(64), nullable=False),  # sha256 of the key, which itself is not stored
    Column("scope", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("expires_at", Double),
    Column("revoked_at", Double),
    UniqueConstraint("hash", name="uq_api_keys_hash"),
    CheckConstraint("scope IN ('read', 'submit', 'admin')", name="ck_api_keys_scope"),
    Index(
        "uq_api_keys_name",
        "name",
        unique=True,
        sqlite_where=UNREVOKED,
        postgresql_where=UNREVOKED,
    ),
    sqlite_autoincrement=True,  # a key's number never comes back: jobs name it
)
