"""The real server and Chromium, as the measurements here and the browser tests start them."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

REPO = Path(__file__).resolve().parents[1]
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The shell first: the same Chromium without the browser's own windows, which need CPU time."""

FLAGS = (
    "--no-sandbox",  # root in a container has none
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",  # WebGL without a GPU
    "--disable-gpu-compositing",  # pages are drawn without it, which costs less CPU
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
)

MISSING = f"no Chromium on PATH ({', '.join(NAMES)}); install it: apt-get install {NAMES[0]}"


def chromium() -> str | None:
    """Path of the first Chromium found, None if there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


RANKSCOPE = (sys.executable, "-c", "import sys; from app.cli import main; sys.exit(main())")
"""The command of this checkout."""
START_S, END_S = 60.0, 20.0
DEMO_START_S = 120.0
_STEPS_PRINTED = re.compile(r"(http://\S+)/overview.*^ +\d+ +\d+ ms", re.M | re.S)


def free_port() -> int:
    """A free port."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port


class Server:
    """`rankscope serve` for a folder of runs; can be killed and started again on its port.

    `checkout`: the folder whose code it runs; `limits`: options of prlimit, such as --nofile=256.
    """

    def __init__(
        self,
        runs: Path,
        *options: str,
        port: int | None = None,
        checkout: Path = REPO,
        limits: Sequence[str] = (),
    ) -> None:
        self.runs = runs
        self.port = port or free_port()
        self.options = options
        self.checkout = checkout
        self.limits = limits
        self.log = runs.parent / f"server-{self.port}.log"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Its address, without a path."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Server:
        """Start it and wait until it answers; raises RuntimeError with its output."""
        command = [*RANKSCOPE, "serve", str(self.runs), "--port", str(self.port), *self.options]
        limited = ["prlimit", *self.limits] if self.limits else []
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*limited, *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.checkout,
                env=clean_environment() | {"PYTHONPATH": str(self.checkout)},
            )
        deadline = time.monotonic() + START_S
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server did not come up:\n{self.log.read_text()[-4000:]}")
            time.sleep(0.05)
        return self

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return True
        except OSError:
            return False

    def kill(self) -> None:
        """End it at once, as a crash would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Ctrl-C; returns its exit code, killing it if it does not end."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        """Its process."""
        assert self.process is not None
        return self.process.pid


class Demo:
    """`rankscope demo` with a job that runs until it is stopped."""

    def __init__(self, folder: Path) -> None:
        """`folder` gets its runs and its output."""
        self._log = folder / "demo.log"
        command = [*RANKSCOPE, "demo", "--no-browser", "--steps", "100000"]
        command += ["--port", str(free_port()), "--runs", str(folder / "runs")]
        with self._log.open("wb") as out:
            self._process = subprocess.Popen(
                command,
                cwd=REPO,
                env=clean_environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )

    def url(self) -> str:
        """Address of its run, once a step is printed: its pages no longer wait for anything.
        Raises SystemExit where it does not come up.
        """
        deadline = time.monotonic() + DEMO_START_S
        while not (found := _STEPS_PRINTED.search(self._log.read_text())):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the demo did not come up:\n{self._log.read_text()}")
            time.sleep(0.1)
        return found[1]

    def stop(self) -> None:
        """Ctrl-C, and wait until all of it has ended."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait()


def clean_environment() -> dict[str, str]:
    """This process's environment without variables for the server or the hooks."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("TRACE_HOOKS", "RANKSCOPE"))}


def rss_mb(pid: int) -> float:
    """Resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def children(pid: int) -> list[int]:
    """All processes below one."""
    below: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            own = [int(child) for child in (task / "children").read_text().split()]
            below += own + [each for child in own for each in children(child)]
    return below


def rss_mb_or_0(pid: int) -> float:
    """Resident memory of a process that may have just ended."""
    try:
        return rss_mb(pid)
    except (OSError, StopIteration):
        return 0.0


@contextmanager
def calling(sample: Callable[[], None], every_s: float) -> Iterator[None]:
    """Call `sample` in a thread every so many seconds while the block runs."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(every_s):
            sample()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def cpu_s(pid: int) -> float:
    """CPU time a process has used so far, all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def loop_ms(rounds: int = 9) -> float:
    """Median time of a fixed loop: how fast this machine is at the moment."""
    times_ms = []
    for _ in range(rounds):
        begun_s = time.perf_counter()
        sum(range(2_000_000))
        times_ms.append((time.perf_counter() - begun_s) * 1e3)
    return round(float(np.median(times_ms)), 1)


def conditions(**more: object) -> dict[str, Any]:
    """The conditions of a measurement: machine, load, versions."""
    path = chromium()
    version = subprocess.run([path, "--version"], capture_output=True, text=True) if path else None
    return {
        "cores": os.cpu_count(),
        "load_1min": round(os.getloadavg()[0], 2),
        "loop_ms": loop_ms(),
        "python": platform.python_version(),
        "browser": " ".join(version.stdout.split()[:2]) if version else "none",
        "webgl": "software (SwiftShader)",
        **more,
    }


def spread(values_ms: Sequence[float]) -> dict[str, float]:
    """Number, median, p95 and greatest of some times."""
    if not values_ms:
        return {"n": 0}
    p50, p95 = np.percentile(values_ms, [50, 95])
    return {
        "n": len(values_ms),
        "p50_ms": round(float(p50), 1),
        "p95_ms": round(float(p95), 1),
        "max_ms": round(max(values_ms), 1),
    }


def report(result: dict[str, Any], as_json: bool) -> None:
    """Print conditions and a table of spreads, or all of it as one JSON object."""
    if as_json:
        print(json.dumps(result, indent=1))
        return
    print(", ".join(f"{key} {value}" for key, value in result["conditions"].items()))
    for name, value in result.items():
        if name == "conditions":
            continue
        if isinstance(value, dict):
            print(name)
            for key, one in value.items():
                print(f"  {key:38} {_line(one)}")
        else:
            print(f"{name:40} {value}")


def _line(value: object) -> str:
    if isinstance(value, dict):
        return "  ".join(f"{key} {one}" for key, one in value.items())
    return str(value)
