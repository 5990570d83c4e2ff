"""Settings of workers and of the command line, read from the environment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from db.sql.choices import DATABASE_URL
from tuner.library.signing_key import default_path

DAY = 86_400


class Settings(BaseSettings):
    """Settings; each field is read from the environment variable ``TUNER_`` plus its name."""

    model_config = SettingsConfigDict(env_prefix="TUNER_")

    database_url: str = Field(DATABASE_URL, description="URL of the database")
    log_format: Literal["json", "console"] = Field(
        "console", description="format of the log, which has one line per event"
    )
    build_workers: int = Field(
        default_factory=lambda: min(16, max(2, (os.cpu_count() or 2) - 2)),
        ge=1,
        le=128,
        description="libraries built at once; each worker is a process that holds TVM",
    )
    build_seconds: float = Field(
        60.0, gt=0, le=DAY, description="a build is killed after this long"
    )
    build_cache: Path | None = Field(
        None, description="a folder that caches built libraries, so that none is built twice"
    )
    run_seconds: float = Field(
        30.0,
        gt=0,
        le=DAY,
        description="the check and timing of one library are killed after this long",
    )
    settle_seconds: float = Field(
        4.0,
        ge=0,
        le=DAY,
        description="most seconds that a job's last round goes on after its twenty turns, until it "
        "is settled which of the first two is faster; 0 makes this round and all trials rough",
    )
    scratch_bytes: int = Field(
        12 << 30,
        gt=0,
        description="most bytes of temporary files that the inputs and references of one job take",
    )
    poll_seconds: float = Field(
        1.0, gt=0, le=DAY, description="how often an idle worker asks for a job"
    )
    signing_key: Path = Field(
        default_factory=default_path,
        description="file of the key that signs all that is tuned here; made if it does not exist",
    )
    metaschedule: bool = Field(
        False,
        description="after each search, let MetaSchedule search the shape with as many trials, "
        "as one more baseline",
    )
    metrics_host: str = Field(
        "127.0.0.1", min_length=1, description="address on which a worker serves metrics"
    )
    metrics_port: int | None = Field(
        None,
        ge=0,
        le=65535,
        description="port on which a worker serves metrics; if unset, it serves none",
    )

    @field_validator("signing_key", mode="before")
    @classmethod
    def _empty_is_unset(cls, value: object) -> object:
        return value or default_path()

    @field_validator("build_cache", mode="before")
    @classmethod
    def _empty_is_none(cls, value: object) -> object:
        return value or None
