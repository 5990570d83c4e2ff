"""``python alone.py URL``: use the client as on a host that only calls kernels. Only the
distributions that docs/how-to/use-a-kernel-in-pytorch.md tells users to install can be imported."""

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

INSTALLED = {
    "numpy": {"numpy"},
    "pydantic": {
        "pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection",
    },
    "httpx2": {"httpx2", "httpcore2", "h11", "anyio", "idna", "truststore"},
    "apache-tvm-ffi": {"tvm_ffi"},
    "cryptography": {"cryptography", "cffi", "_cffi_backend", "pycparser"},
    "convtune": {"tuner", "templates", "db"},
}  # fmt: skip
"""The modules of each installed distribution, and of the distributions that it requires."""
FOUND_ONLY = "tvm"
"""A package that may be found, since TVM's runtime library lies in its folder, but not imported."""


class Refused(Loader):
    """A loader that refuses to import the package that was found."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        raise ImportError(f"{spec.name} is not to be imported")

    def exec_module(self, module: ModuleType) -> None: ...


class Gate(MetaPathFinder):
    """A finder, put before all others, that refuses every module but the standard library's and
    those of INSTALLED."""

    allowed = sys.stdlib_module_names | set().union(*INSTALLED.values())

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        first = name.partition(".")[0]
        if first in self.allowed or first.startswith("_sysconfigdata"):
            return None  # the next finder finds it
        if name == FOUND_ONLY and (spec := PathFinder.find_spec(name)):
            spec.loader = Refused()
            return spec
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def main(url: str) -> None:
    import numpy as np

    from tuner.client.client import Client
    from tuner.errors import JobFailed, NoCompiler

    with Client(url) as client:
        library = client.load(client.best("conv1d", M=16384, N=32))
        x = np.random.default_rng(0).standard_normal(16384).astype(np.float32)
        w = np.ones(32, np.float32)
        assert np.allclose(library(x, w), np.convolve(x, w), atol=1e-4)
        print(library(x, w, out=np.empty(16415, np.float32)).shape)
        job = client.submit("conv1d", M=100, N=3, trials=19)
        try:
            client.wait(job, timeout=30, progress=lambda now: now.ended or client.cancel(now))
        except JobFailed as error:
            print(error.job.state)
        try:
            client.tune("conv1d", M=100, N=3)
        except NoCompiler as error:
            print(error)


if __name__ == "__main__":
    sys.meta_path.insert(0, Gate())
    main(sys.argv[1])
