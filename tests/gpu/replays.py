"""What the GPU's clock does for a sample, seen from the kernel that it times."""

from collections.abc import Callable

from tuner.device.cuda import checked
from tuner.measure.cuda_clock import CudaClock
from tuner.measure.kernel import Kernel

BYTES = 2**28


def replays_of_a_sample(writes: int) -> tuple[int, int, int]:
    """Return a graph's copies of the kernel, a sample's counted calls, and all its replays.

    If ``writes`` is 1, the kernel writes a byte. Otherwise it writes 256 MiB this many times.
    """
    from cuda.bindings import runtime

    memory = checked(runtime.cudaMalloc(BYTES))
    asked, made = [], []

    def graphed(copies: int, stream: int) -> Callable[[], None]:
        asked.append(copies)

        def replay() -> None:
            made.append(copies)
            for _ in range(copies * writes):
                size = 1 if writes == 1 else BYTES
                checked(runtime.cudaMemsetAsync(memory, 0, size, stream))

        return replay

    clock = CudaClock(cache_bytes=BYTES, set_bytes=BYTES)
    sampler = clock.warm(Kernel(call=lambda: None, graphed=graphed), budget_seconds=5e-3)
    before = len(made)
    sampler.sample()
    return asked[-1], sampler.calls, len(made) - before
