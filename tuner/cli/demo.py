"""``make demo``: tune a shape over HTTP on this machine, and call and check its library.

The demo starts a service and a worker on an SQLite file and tunes a shape, for the GPU if there is
one and for the CPU otherwise. It fetches the best's library over HTTP, calls it, and checks its
output against NumPy. The database stays in the folder ``convtune-demo``; the next demo continues
its search.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tuner.client.answers import Best, Job
from tuner.client.client import Client
from tuner.device.cuda_facts import missing
from tuner.errors import NotTuned, ServiceUnreachable, TunerError
from tuner.library.signing_key import own_key, public_key_of
from tuner.process import own_modules
from tuner.worker.supervise import stop_processes

M, N = 16384, 32
TRIALS = {"cpu": 64, "cuda": 192}
START_SECONDS = 60.0
STOP_SECONDS = 20.0
MAX_ERROR = 1e-5
FOLDER = Path("convtune-demo")
DATABASE = "demo.db"
SIGNING_KEY = "signing_key.pem"

console = Console(width=100)


def main() -> None:
    """Run the demo. Exit with code 1 if the kernel's numbers are wrong."""
    kind = "cpu" if missing() else "cuda"
    console.print(f"convtune demo: conv1d of {M} samples with {N} taps, on this machine's {kind}")
    folder = FOLDER.absolute()
    folder.mkdir(exist_ok=True)
    port = free_port()
    signer = public_key_of(own_key(folder / SIGNING_KEY))
    client = Client(f"http://127.0.0.1:{port}", signers=[signer])
    with running(folder, port, kind), client:
        until_ready(client)
        console.print(f"service on {client.url}, one worker, database in {folder}")
        job = _tuned(client, kind)
        best = client.best("conv1d", M=M, N=N)
        _show(best, job)
        _call(client, best, kind)
    _show_what_to_type_next(folder, job)


def _tuned(client: Client, kind: str) -> Job:
    order = client.submit("conv1d", M=M, N=N, trials=TRIALS[kind], on_existing="retune")
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("waiting for the worker", total=TRIALS[kind])

        def show(now: Job) -> None:
            said = f"best {now.best.time_us:6.2f} µs" if now.best else now.state
            bar.update(task, completed=now.trials.measured, description=said)

        return client.wait(order, timeout=280, progress=show)


def _show(best: Best, job: Job) -> None:
    console.print(f"{job.trials.measured} trials: {job.trials.ok} ok, {job.trials.failed} failed")
    knobs = "  ".join(f"{name}={value}" for name, value in best.config.items())
    console.print(
        f"best configuration on {best.device.name} ({best.device.arch}): [bold]{knobs}[/]"
    )
    console.print(f"{'':24}{'warm µs':>10}{'times best':>14}")
    console.print(f"{'best':24}{best.time_us:10.2f}{'1.0':>14}", style="bold")
    for baseline in best.baselines or []:
        line = f"{baseline.name:24}"
        if baseline.time_us is not None:
            line += f"{baseline.time_us:10.2f}{baseline.speedup:14.1f}"
        line += "".join(f"  {first}" for first in (baseline.error or "").splitlines()[:1])
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _call(client: Client, best: Best, kind: str) -> None:
    library = client.load(best)
    console.print(f"fetched {library.path.name} over HTTP, {library.path.stat().st_size} bytes")
    rng = np.random.default_rng()
    x = rng.standard_normal(M).astype(np.float32)
    w = rng.standard_normal(N).astype(np.float32)
    expected = np.convolve(x.astype(np.float64), w.astype(np.float64))
    if kind == "cuda":
        try:
            import torch
        except ImportError:
            console.print("PyTorch is not installed: its tensors are how a CUDA library is called")
            return
        y = library(torch.from_numpy(x).cuda(), torch.from_numpy(w).cuda()).cpu().numpy()
    else:
        y = library(x, w)
    error = float(np.abs(y - expected).max() / np.abs(expected).max())
    console.print(f"called it on new random data: largest error {error:.1e} of numpy.convolve")
    if not error <= MAX_ERROR:
        sys.exit(f"demo: the error is above {MAX_ERROR:g}")


def _show_what_to_type_next(folder: Path, job: Job) -> None:
    tuner = Path(sys.executable).with_name("tuner")
    if tuner.is_relative_to(Path.cwd()):
        tuner = tuner.relative_to(Path.cwd())
    lines = (
        "the database stays; to go on in it:",
        f"  export TUNER_DATABASE_URL={_database_url(folder)}",
        f"  {tuner} jobs show {job.id} --trials",
        f"  {tuner} best conv1d --M {M} --N {N}",
        f"  {tuner} tune depthwise_conv2d --B 1 --C 32 --H 56 --W 56 --K 3",
        f"  {tuner} serve",
        f"and see http://127.0.0.1:8000/ui/jobs/{job.id}",
    )
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _database_url(folder: Path) -> str:
    return f"sqlite:///{folder / DATABASE}"


@contextmanager
def running(
    folder: Path, port: int, kind: str
) -> Iterator[tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]]:
    """Run a service on ``port`` and a worker for ``kind`` as processes, and end them on exit.

    Their logs are written to the folder. If the context raises, the ends of the logs are printed to
    standard error.
    """
    environment = {
        **os.environ,
        **own_modules.environment(),
        "TUNER_DATABASE_URL": _database_url(folder),
        "TUNER_SIGNING_KEY": str(folder / SIGNING_KEY),
        "TUNER_LOG_FORMAT": "console",
        "TUNER_POLL_SECONDS": "0.2",
        "TUNER_HOST": "127.0.0.1",
        "TUNER_PORT": str(port),
    }
    commands = {
        "service": own_modules.command("api"),
        "worker": own_modules.command("tuner.worker", "--target", kind),
    }
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for name, command in commands.items():
            with (folder / f"{name}.log").open("wb") as log:
                processes.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
        service, worker = processes
        yield service, worker
    except BaseException:
        for name in commands:
            said = (folder / f"{name}.log").read_text().splitlines()[-5:]
            print(f"--- the end of the {name}'s log ---", *said, sep="\n", file=sys.stderr)
        raise
    finally:
        stop_processes(processes, STOP_SECONDS)


def until_ready(client: Client) -> None:
    """Wait until the service answers. Raises ServiceUnreachable after START_SECONDS."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            client.best("conv1d", M=M, N=N)
            return
        except NotTuned:
            return  # that is an answer, too: the database is new
        except ServiceUnreachable:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def free_port() -> int:
    """Return a port of the loopback address on which nobody listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


if __name__ == "__main__":
    try:
        main()
    except TunerError as error:
        sys.exit(f"demo: {error}")
