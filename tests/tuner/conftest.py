"""Real libraries for this machine's CPU, built once and kept beside their manifests."""

from pathlib import Path

import pytest
from small_libraries import build_all


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return build_all(tmp_path_factory.mktemp("libraries"))
