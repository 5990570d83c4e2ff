"""Several hosts on one network, as network namespaces of this machine."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

NETWORK = "10.213.77"
HERE = f"{NETWORK}.1"


class NotAllowed(Exception):
    """This user can't make network namespaces on this machine."""


@contextmanager
def network(hosts: int) -> Iterator[list[tuple[str, str]]]:
    """Yield the namespace and the address of each host.

    The hosts reach each other and, at HERE, this process's own. Raise NotAllowed if this user can't
    make namespaces.
    """
    own = f"{os.getpid() % 10_000}"
    bridge = f"ctb{own}"
    with ExitStack() as stack:
        try:
            _ip("link", "add", bridge, "type", "bridge")
            stack.callback(_ip, "link", "del", bridge)
            _ip("addr", "add", f"{HERE}/24", "dev", bridge)
            _ip("link", "set", bridge, "up")
            made = []
            for number in range(2, 2 + hosts):
                name, cable = f"cth{own}-{number}", f"ctv{own}-{number}"
                _ip("netns", "add", name)
                stack.callback(_ip, "netns", "del", name)
                peer = ("peer", "name", "eth0", "netns", name)
                _ip("link", "add", cable, "type", "veth", *peer)
                _ip("link", "set", cable, "master", bridge, "up")
                _ip("-n", name, "addr", "add", f"{NETWORK}.{number}/24", "dev", "eth0")
                for device in ("lo", "eth0"):
                    _ip("-n", name, "link", "set", device, "up")
                made.append((name, f"{NETWORK}.{number}"))
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", "") or str(error)
            raise NotAllowed(said.strip()) from error
        yield made


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
