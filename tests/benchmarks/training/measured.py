"""Programs and PyTorch's own gradients, timed in one process. It needs PyTorch, cuda-bindings and
NVRTC, but neither TVM nor the rest of this project."""

from __future__ import annotations

import gzip
import json
import multiprocessing
import re
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

MODULE = "python -m tests.benchmarks.training"
KEPT = 3  # of the fastest configurations
ALLOWED = {"bfloat16": 4e-3, "float32": 1e-5}
TAPS = 40  # of a weight's gradient, that are checked
ENOUGH = 2e-3  # seconds of a graph


def measured(folder: Path, seconds: float, names: list[str] | None) -> dict[str, Any]:
    """Times in µs of every program and of PyTorch, by layer and direction."""
    import torch

    begun = time.monotonic()
    written = json.loads(gzip.decompress((folder / "programs.json.gz").read_bytes()))
    chosen = [each for each in written["programs"] if names is None or each["layer"] in names]
    compiled = partial(_cubin, written["headers"], written["options"])
    with multiprocessing.get_context("fork").Pool() as pool:
        built = pool.imap(compiled, [each["source"] for each in chosen])
        torch.backends.cudnn.benchmark = True
        rows: dict[str, dict[str, Any]] = {}
        layer: Layer | None = None
        for program, cubin in zip(chosen, built, strict=True):
            if time.monotonic() - begun > seconds:
                break
            if layer is None or layer.name != program["layer"]:
                layer = Layer(program["layer"], program["fields"])
            key = f"{program['layer']} {program['direction']}"
            row = rows.setdefault(key, {"pytorch": layer.pytorch(program["direction"]), "ours": []})
            found = {"config": program["config"], **layer.ours(program, cubin)}
            row["ours"].append(found)
        pool.terminate()
    for row in rows.values():
        right = sorted(
            (each for each in row["ours"] if "failed" not in each), key=lambda each: each["time_us"]
        )
        failed = [each for each in row["ours"] if "failed" in each]
        row |= {"tried": len(row["ours"]), "failed": failed, "ours": right[:KEPT]}
    return {
        "commands": [written["command"], f"{MODULE} measure FOLDER --seconds {seconds:.0f}"],
        "date": time.strftime("%Y-%m-%d"),
        "device": torch.cuda.get_device_name(),
        "versions": {"torch": torch.__version__, "cuda": torch.version.cuda},
        "rows": rows,
    }


def _cubin(headers: dict[str, str], told: list[str], source: str) -> bytes | str:
    """Machine code, or the compiler's log."""
    from cuda.bindings import nvrtc

    names = [name.encode() for name in headers]
    texts = [text.encode() for text in headers.values()]
    given = (source.encode(), b"kernel.cu", len(names), texts, names)
    _, handle = nvrtc.nvrtcCreateProgram(*given)
    options = [option.encode() for option in told]
    if int(nvrtc.nvrtcCompileProgram(handle, len(options), options)[0]) != 0:
        log = b" " * nvrtc.nvrtcGetProgramLogSize(handle)[1]
        nvrtc.nvrtcGetProgramLog(handle, log)
        return log.decode(errors="replace")
    code = b" " * nvrtc.nvrtcGetCUBINSize(handle)[1]
    nvrtc.nvrtcGetCUBIN(handle, code)
    nvrtc.nvrtcDestroyProgram(handle)
    return code


class Layer:
    """A layer's random tensors, channels last, and what is computed of them."""

    def __init__(self, name: str, fields: dict[str, Any]) -> None:
        import torch

        self.name, self._fields = name, fields
        self._dtype = getattr(torch, fields["dtype"])
        b, c, h, w = (fields[extent] for extent in "BCHW")
        k, s = fields["K"], fields["stride"]
        self._pad = fields["padding"][0]
        self._out = (h + 2 * self._pad - k) // s + 1, (w + 2 * self._pad - k) // s + 1
        random = torch.Generator("cuda").manual_seed(1)

        def drawn(*shape: int) -> Any:
            values = torch.randn(shape, device="cuda", generator=random).to(self._dtype)
            return values if shape[1] == 1 else values.to(memory_format=torch.channels_last)

        self._x, self._weight = drawn(b, c, h, w), drawn(c, 1, k, k)
        self._g = drawn(b, c, *self._out)
        self._references: dict[str, Any] = {}

    def pytorch(self, direction: str) -> dict[str, float]:
        """By layout."""
        import torch

        found = {}
        for layout, form in (("NCHW", torch.contiguous_format), ("NHWC", torch.channels_last)):
            x, g = (each.contiguous(memory_format=form) for each in (self._x, self._g))
            stride, pad = [self._fields["stride"]] * 2, [self._pad] * 2
            rest = (stride, pad, [1, 1], False, [0, 0], self._fields["C"])
            mask = [direction == "backward_input", direction == "backward_weight", False]

            def call(x: Any = x, g: Any = g, rest: Any = rest, mask: Any = mask) -> None:
                if direction == "forward":
                    torch.ops.aten.convolution(x, self._weight, None, *rest)
                else:
                    torch.ops.aten.convolution_backward(g, x, self._weight, None, *rest, mask)

            found[layout] = _timed(call)
        return found

    def ours(self, program: dict[str, Any], cubin: bytes | str) -> dict[str, Any]:
        """Its time and its error, or why there is none."""
        import torch

        if isinstance(cubin, str):
            return {"failed": cubin[:400]}
        direction = program["direction"]
        like = {"forward": self._g, "backward_input": self._x, "backward_weight": self._weight}
        y = torch.full_like(like[direction], torch.nan)
        floats = torch.full((max(1, program["workspace"]),), torch.nan, device="cuda")
        # a forward template's program of an input's gradient calls that x
        x = self._g if direction == "backward_input" else self._x
        tensors = {"x": x, "w": self._weight, "g": self._g, "y": y, "workspace": floats}
        launch = Launches(program, cubin, tensors)
        launch()
        torch.cuda.synchronize()
        error = self._error(direction, y)
        if not error <= ALLOWED[self._fields["dtype"]]:
            return {"failed": f"error {error:.1e}"}
        return {"time_us": _timed(launch), "error": error}

    def _error(self, direction: str, y: Any) -> float:
        """Against float64: of a weight's gradient some taps, else of two images."""
        import torch

        if direction not in self._references:
            self._references[direction] = self._reference(direction)
        taps, exact = self._references[direction]
        found = y[:, 0, taps[0], taps[1]] if taps else y[:2]
        size = exact.abs().max()
        return float(((found.to(torch.float64) - exact).abs().max() / size).item())

    def _reference(self, direction: str) -> tuple[Any, Any]:
        import torch

        c, k, s = (self._fields[name] for name in ("C", "K", "stride"))
        rest = ([s, s], [self._pad] * 2, [1, 1], False, [0, 0], c)
        if direction == "forward":
            x, w = self._x[:2].double(), self._weight.double()
            return None, torch.ops.aten.convolution(x, w, None, *rest)
        if direction == "backward_input":
            x, w, g = self._x[:2].double(), self._weight.double(), self._g[:2].double()
            mask = [True, False, False]
            return None, torch.ops.aten.convolution_backward(g, x, w, None, *rest, mask)[0]
        every = [(i, j) for i in range(k) for j in range(k)]
        some = every[:: max(1, len(every) // TAPS)]
        padded = torch.nn.functional.pad(self._x.double(), [self._pad, self._pad + s] * 2)
        down, across = ((extent - 1) * s + 1 for extent in self._out)
        exact = [
            (padded[:, :, i : i + down : s, j : j + across : s] * self._g.double()).sum((0, 2, 3))
            for i, j in some
        ]
        taps = tuple(torch.tensor(axis, device="cuda") for axis in zip(*some, strict=True))
        return taps, torch.stack(exact, 1)


class Launches:
    """A program's kernels with their tensors, to be called on PyTorch's current stream."""

    def __init__(self, program: dict[str, Any], cubin: bytes, tensors: dict[str, Any]) -> None:
        import ctypes

        from cuda.bindings import driver

        self._driver = driver
        self._module = _checked(driver.cuModuleLoadData(cubin))
        self._calls = []
        most = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        for name, blocks, threads, size in program["kernels"]:
            function = _checked(driver.cuModuleGetFunction(self._module, name.encode()))
            _checked(driver.cuFuncSetAttribute(function, most, size))
            taken = [tensors[symbol] for symbol in _parameters(program["source"], name)]
            pointers = tuple(tensor.data_ptr() for tensor in taken)
            kinds = (ctypes.c_void_p,) * len(taken)
            self._calls.append((function, blocks, threads, size, (pointers, kinds)))
        self._kept = tensors

    def __call__(self) -> None:
        import torch

        stream = torch.cuda.current_stream().cuda_stream
        for function, blocks, threads, size, given in self._calls:
            grid = (function, blocks, 1, 1, threads, 1, 1, size, stream, given, 0)
            _checked(self._driver.cuLaunchKernel(*grid))

    def __del__(self) -> None:
        self._driver.cuModuleUnload(self._module)


def _parameters(source: str, kernel: str) -> Iterator[str]:
    """The symbols of a kernel's pointers."""
    found = re.search(rf"__global__ void __launch_bounds__\(\d+\) {kernel}\(([^)]*)\)", source)
    text = found[1] if found else ""
    return (name.removesuffix("_ptr") for name in re.findall(r"__restrict__ (\w+)", text))


def _timed(call: Callable[[], None]) -> float:
    """Median µs of replays of a graph of many copies."""
    import torch

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call()
        stream.synchronize()
        one = _elapsed(call)
        copies = max(1, min(50, int(1e6 * ENOUGH / max(one, 1.0))))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(copies):
                call()
        times = [_elapsed(graph.replay) / copies for _ in range(4 if one > 3000 else 9)]
    return statistics.median(times[1:])


def _elapsed(call: Callable[[], None]) -> float:
    """Of one call, in µs."""
    import torch

    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    call()
    last.record()
    last.synchronize()
    return float(1e3 * first.elapsed_time(last))


def _checked(result: Any) -> Any:
    error, *values = result
    if int(error) != 0:
        raise RuntimeError(f"CUDA: {error}")
    return values[0] if values else None
