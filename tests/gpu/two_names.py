"""A GPU's UUID by CUDA and by NVML. Child processes import this module."""

from tuner.device import cuda_facts


def two_names() -> tuple[str, str]:
    """Return the UUID of the first visible GPU by CUDA, and of the GPU whose clocks NVML reads.

    Both are hexadecimal without dashes.
    """
    import pynvml
    from cuda.bindings import runtime

    from tuner.device.cuda import checked

    uuid = checked(runtime.cudaGetDeviceProperties(0)).uuid.bytes.hex()
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByPciBusId(cuda_facts.pci_bus_id())
    named = pynvml.nvmlDeviceGetUUID(handle)
    return uuid, named.removeprefix("GPU-").replace("-", "")
