"""The folder of a package. pip installs it, and ``get_local_kernel`` of Hugging Face's ``kernels``
loads it."""

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
"""The names that ``kernels`` accepts. The Python package has the same name, with underscores."""

_COMPUTING = {"torch", "numpy", "tvm", "tvm_ffi", "apache_tvm", "apache_tvm_ffi"}
_TUNING = {"convtune", "api", "db", "templates", "tuner"}
_TAKEN = {*sys.stdlib_module_names, *_COMPUTING, *_TUNING}
"""Names that a package may not take. It would hide the module of that name, or pip would replace
the installed package of that name with it."""


def name_of(folder: Path, given: str | None) -> str:
    """Return the package's name: the given name, or a name made from the folder's.

    Raise BadOrder if it is malformed, a keyword of Python or the name of another package."""
    name = given or re.sub("[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-")
    if iskeyword(name):
        raise BadOrder("--name", f"{name!r} is a Python keyword, so it can't be imported")
    if not _NAME.fullmatch(name):
        raise BadOrder(
            "--name",
            f"{name!r} can't name a package: give 2 to 64 lower-case letters, digits and dashes, a "
            "letter first and no dash last",
        )
    imported = name.replace("-", "_")
    if iskeyword(imported) or imported in _TAKEN:
        raise BadOrder(
            "--name", f"a package {name!r} could not be imported as {imported}: give another name"
        )
    return name


def write(folder: Path, name: str, found: Contents) -> None:
    """Write the package into ``folder``, as a whole or not at all.

    Each kind of device gets a variant. The variant for GPUs contains the kernels for CPUs too. If
    it exists, pip installs it. Raise UnusableFile if the folder can't be written or is not empty,
    and MissingRuntime if TVM's runtime can't be read."""
    with _whole(folder) as partial:
        for place, kind in enumerate(found.kinds):
            kernels = [each for each in found.kernels if each.kind in found.kinds[: place + 1]]
            variant = variant_name(kind)
            identity = write_variant(partial / "build" / variant, name, kind, kernels)
        (partial / "pyproject.toml").write_text(_pyproject(name, variant, identity))


def _pyproject(name: str, variant: str, identity: str) -> str:
    """Return a ``pyproject.toml`` that builds a wheel for this kind of processor.

    The version ends in a hash of the contents. ``build-base`` keeps the temporary files of
    setuptools out of ``build``, which contains the variants."""
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
    """Yield a temporary folder, which is renamed to ``folder`` on success and removed on failure.

    Raise UnusableFile if ``folder`` is not empty, or if a file can't be written."""
    folder = folder.resolve()
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UnusableFile(folder, "is there already; name another folder, or remove it")
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            made = partial / "package"
            made.mkdir()  # has the user's usual mode; only its owner can read mkdtemp's folder
            yield made
            made.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)  # an error here would hide the first one
    except OSError as error:
        raise UnusableFile(folder, error.strerror or str(error)) from error
