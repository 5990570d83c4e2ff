"""A package's folder: for pip, and for ``get_local_kernel`` of huggingface's ``kernels``."""

from __future__ import annotations

import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from keyword import iskeyword
from pathlib import Path

from tuner.errors import BadOrder, UnusableFile
from tuner.package.contents import Contents
from tuner.package.variant import LICENCE, VERSION, variant_name, write_variant

_NAME = re.compile("[a-z][-a-z0-9]{0,62}[a-z0-9]")
"""As ``kernels`` takes it; with underscores it names the Python package."""

_COMPUTING = {"torch", "numpy", "tvm", "tvm_ffi", "apache_tvm", "apache_tvm_ffi"}
_TUNING = {"convtune", "api", "db", "templates", "tuner"}
_TAKEN = {*sys.stdlib_module_names, *_COMPUTING, *_TUNING}
"""Another package of such a name would hide, or pip would put it into the place of, what is
imported by it or installed under it."""


def name_of(folder: Path, given: str | None) -> str:
    """The package's name: the one that is given, or by the folder's. Raises BadOrder."""
    name = given or re.sub("[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-")
    if iskeyword(name):
        raise BadOrder("--name", f"{name!r} is a word of Python's, which no import takes")
    if not _NAME.fullmatch(name):
        raise BadOrder(
            "--name",
            f"{name!r} can't name a package: give lower-case letters, digits and dashes, a letter "
            "first, and two of them at least, 64 at most",
        )
    imported = name.replace("-", "_")
    if iskeyword(imported) or imported in _TAKEN:
        raise BadOrder(
            "--name", f"a package {name!r} could not be imported as {imported}: give another name"
        )
    return name


def write(folder: Path, name: str, found: Contents) -> None:
    """All of it, or nothing. A variant for machines with a GPU has the kernels for CPUs too; pip
    installs that if there is one. Raises UnusableFile if something is there already, and
    MissingRuntime."""
    with _whole(folder) as partial:
        for place, kind in enumerate(found.kinds):
            kernels = [each for each in found.kernels if each.kind in found.kinds[: place + 1]]
            variant = variant_name(kind)
            identity = write_variant(partial / "build" / variant, name, kind, kernels)
        (partial / "pyproject.toml").write_text(_pyproject(name, variant, identity))


def _pyproject(name: str, variant: str, identity: str) -> str:
    """For a wheel for this kind of processor, whose version tells contents apart. What setuptools
    leaves behind stays out of the folder of variants."""
    module = name.replace("-", "_")
    return f"""\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "{name}"
version = "{VERSION}+{identity[-12:]}"
description = "Convolutions that convtune tuned"
license = "{LICENCE}"
license-files = ["build/{variant}/tvm_runtime/LICENSE", "build/{variant}/tvm_runtime/NOTICE"]
requires-python = ">=3.11"
dependencies = ["torch>=2.13", "apache-tvm-ffi>={version("apache-tvm-ffi")},<0.2"]

[tool.setuptools]
packages = ["{module}"]
package-dir = {{ {module} = "build/{variant}" }}

[tool.setuptools.package-data]
{module} = ["*.json", "kernels/*", "tvm_runtime/*", "tvm_runtime/*/*"]

[tool.distutils.build]
build-base = ".wheel"

[tool.distutils.bdist_wheel]
plat-name = "linux_{platform.machine()}"
"""


@contextmanager
def _whole(folder: Path) -> Iterator[Path]:
    """A folder beside, which takes the place of this one on leaving. Raises UnusableFile."""
    folder = folder.resolve()
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UnusableFile(folder, "is there already; name another folder, or remove it")
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            made = partial / "package"
            made.mkdir()  # with the mode of any folder of the user's, which mkdtemp has not
            yield made
            made.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)  # or else it hides why nothing was made
    except OSError as error:
        raise UnusableFile(folder, error.strerror or str(error)) from error
