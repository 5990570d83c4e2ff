"""An RPC server that claims a device other than this machine's."""

from dataclasses import replace

from tuner.device import cpu_facts
from tuner.device.device import Device
from tuner.farm import server


def another(_: str) -> Device:
    return replace(cpu_facts.device(), name="Another CPU")


if __name__ == "__main__":
    from tests.tuner.farm import other_device  # not __main__: children import it by its name

    server.detect = other_device.another
    server.main()
