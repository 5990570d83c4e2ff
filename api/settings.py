"""Settings that the service reads from the environment."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Literal

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """The service's ``TUNER_*`` variables. The worker reads ``TUNER_DATABASE_URL``, too."""

    model_config = SettingsConfigDict(env_prefix="TUNER_", frozen=True, extra="ignore")

    database_url: str = Field("sqlite:///convtune.db", min_length=1)
    host: str = Field("127.0.0.1", min_length=1)
    port: int = Field(8000, ge=0, le=65535)
    log_format: Literal["json", "console"] = "json"
    require_key_to_read: bool = False
    requests_per_second: float | None = Field(None, gt=0)  # of each caller; None: no limit
    max_unfinished_jobs: int | None = Field(None, ge=1)  # of each caller; None: no limit
    trusted_proxies: str | None = None  # whose X-Forwarded-For is believed; None: nobody's

    @field_validator("trusted_proxies")
    @classmethod
    def _addresses(cls, value: str | None) -> str | None:
        for each in value.split(",") if value else ():
            try:
                ip_network(each.strip())
            except ValueError as error:
                raise PydanticCustomError(
                    "addresses", "must be addresses or networks with commas between them"
                ) from error
        return value or None
