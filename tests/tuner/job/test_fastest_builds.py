"""The libraries of a search that are kept for the round at its end: those of the fastest trials."""

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tuner.build.compile import BuildOrder, Built
from tuner.job.fastest_builds import KEPT, FastestBuilds


def built(folder: Path, number: int) -> tuple[dict[str, Any], Built]:
    library = folder / f"{number}.so"
    library.write_text(f"library {number}")
    config = {"template": "planted", "number": number}
    order = BuildOrder("", "", config, {}, library)
    return config, Built("ok", order, source=f"source {number}", workspace=number)


@given(times=st.lists(st.floats(1, 1e6), max_size=3 * KEPT, unique=True))
def test_fastest_builds_are_kept_each_with_its_own_library(
    times: list[float], tmp_path_factory: Any
) -> None:
    folder = tmp_path_factory.mktemp("builds")
    fastest = FastestBuilds(folder)
    configs = []
    for number, time_us in enumerate(times):
        config, one = built(folder, number)
        configs.append(config)
        fastest.offer(config, one, time_us)
        one.order.library.unlink(missing_ok=True)  # the search removes each library after its trial
    assert len([*folder.iterdir()]) == min(KEPT, len(times))
    kept = {times.index(time_us) for time_us in sorted(times)[:KEPT]}
    for number, config in enumerate(configs):
        wanted = folder / f"final-{number}.so"
        found = fastest.take(config, wanted)
        assert (found is not None) == (number in kept)
        if found is not None:
            assert found.order.library == wanted
            assert wanted.read_text() == f"library {number}"
            assert (found.source, found.workspace) == (f"source {number}", number)
        assert fastest.take(config, wanted) is None
