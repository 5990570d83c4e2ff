"""Write packages of kernels, and load or run them as their users do."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from small_libraries import describe, workload
from sqlalchemy import Engine

import templates
from db.sql.engine import migrate, open_engine
from tuner.build.compile import BuildOrder, build, program_of
from tuner.client.local import Local
from tuner.device.device import Device
from tuner.package import folder as folders
from tuner.package.contents import Contents, chosen, contents
from tuner.process.child import Child
from tuner.settings import Settings

ALONE = ("tvm_ffi", "typing_extensions.py")
"""The entries of site-packages that apache-tvm-ffi installs, and that it and PyTorch require."""
OTHERS = ("tvm", "tuner", "templates", "db", "numpy", "pydantic")
"""The modules that a package may not import."""


def packed(source: Local) -> Contents:
    """Return the contents of a package of all bests."""
    return contents(source, chosen(source, None))


def written(source: Local, folder: Path) -> Path:
    """Write a package of all bests into the folder; return the folder of its last variant."""
    found = packed(source)
    folders.write(folder, folders.name_of(folder, None), found)
    return variants(folder)[-1]


def variants(folder: Path) -> list[Path]:
    """Return the folders of the package's variants; those for CPUs come first."""
    return sorted((folder / "build").iterdir())


def built_for(device: Device, folder: Path) -> Path:
    """Build and sign a library of ``depthwise`` for the device, which need not be present; return
    its path."""
    path, work = folder / "depthwise-other.so", workload("depthwise")
    template = templates.templates_for(work, device.limits)[0]
    config = template.default(work, device.limits)
    child = Child()
    try:
        order = BuildOrder(work.key, program_of(template), config, device.target, path)
        built = child.call(build, order, timeout=120)
    finally:
        child.close()
    assert built.status == "ok", built.error
    describe(path, work, device, template, config)
    return path


@contextmanager
def database(folder: Path) -> Iterator[tuple[Local, Engine]]:
    """Yield a new local database without bests, and its engine."""
    settings = Settings(database_url=f"sqlite:///{folder / 'convtune.db'}")
    engine = open_engine(settings.database_url)
    migrate(engine)
    with Local(settings, cache=folder / "cache") as opened:
        yield opened, engine
    engine.dispose()


def loaded(variant: Path, name: str) -> ModuleType:
    """Import a variant by its path under the given name, as Hugging Face's ``kernels`` does."""
    spec = importlib.util.spec_from_file_location(name, variant / "__init__.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def alone(variant: Path, folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Run a program that can import nothing but the variant (as ``shipped``), PyTorch, tvm-ffi and
    the standard library. ``folder`` must not exist; it becomes the program's site-packages."""
    import torch
    import tvm_ffi

    folder.mkdir()
    site = Path(tvm_ffi.__file__).parents[1]
    for name, target in {"shipped": variant, **{each: site / each for each in ALONE}}.items():
        (folder / name).symlink_to(target)
    pytorch = Path(torch.__file__).parents[1]
    paths = f"import sys; sys.path[:0] = [{str(folder)!r}]; sys.path += [{str(pytorch)!r}]\n"
    # OTHERS may be installed beside PyTorch; None in sys.modules makes their import fail.
    paths += f"sys.modules |= dict.fromkeys({OTHERS})\n"
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", paths + program],
        env={"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
