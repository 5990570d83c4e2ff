"""Census of the convolution layers of public models: which are workloads, and why others are not.

python -m tests.benchmarks.census --write docs/benchmarks/census

Models of timm, transformers and torchaudio, if these are installed, are built with random weights
and called once, on PyTorch's meta device if possible. Nothing is downloaded, and on the meta device
nothing is computed. Layers with the same parameters and the same input shape count as one.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import logging
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from tests.benchmarks.census.count import Census, as_json, take
from tests.benchmarks.census.models import LIBRARIES, models
from tests.benchmarks.census.page import compact, markdown, short, skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="path without suffix: .json and .md are made")
    options = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    logging.disable(logging.WARNING)
    try:
        import torch  # noqa: F401
    except ImportError:
        print("the census needs PyTorch, which is not installed", file=sys.stderr)
        return 1
    start = time.monotonic()
    census, missing = Census(), {}
    for library in LIBRARIES:
        try:
            here = list(models(library))
        except ModuleNotFoundError as error:
            missing[library] = f"not installed: no module {error.name}"
        except Exception as error:
            missing[library] = short(f"can't be imported: {type(error).__name__}: {error}")
        else:
            for model in here:
                print(f"\r{library} {model.name:40}", end="", file=sys.stderr, flush=True)
                take(census, model)
            print(f"\r{'':60}\r", end="", file=sys.stderr)
    if not census.models:
        print("no model was counted; the census needs some of these libraries:", file=sys.stderr)
        print(*(f"- {name}: {why}" for name, why in missing.items()), sep="\n", file=sys.stderr)
        print(*(f"- {skip(each)}" for each in census.skipped.items()), sep="\n", file=sys.stderr)
        return 1
    result = {
        "command": "python -m tests.benchmarks.census",
        "date": datetime.now(UTC).date().isoformat(),
        "seconds": round(time.monotonic() - start),
        "versions": {
            name: importlib.metadata.version(name)
            for name in ("torch", *LIBRARIES)
            if name not in missing
        },
        "missing": missing,
        **as_json(census),
    }
    page = markdown(result)
    print(page)
    if options.write:
        options.write.with_suffix(".md").write_text(page)
        options.write.with_suffix(".json").write_text(compact(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
