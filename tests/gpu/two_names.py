"""Run in a child process, which finds it by its import path."""

from tuner.device import cuda_facts


def two_names() -> tuple[str, str]:
    """Of GPU 0 of those visible: its UUID by CUDA, and by NVML of what clocks are asked of."""
    import pynvml
    from cuda.bindings import runtime

    from tuner.device.cuda import checked

    uuid = checked(runtime.cudaGetDeviceProperties(0)).uuid.bytes.hex()
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByPciBusId(cuda_facts.pci_bus_id())
    named = pynvml.nvmlDeviceGetUUID(handle)
    return uuid, named.removeprefix("GPU-").replace("-", "")
