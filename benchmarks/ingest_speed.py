"""Speed and memory of importing traces, compared with HolisticTraceAnalysis and pandas.

python benchmarks/ingest_speed.py [--mb 500] [--rounds 3] [--quick] [--json] [--source PROFILE]
                                  [--dumps]

Everything is measured in this one run, in separate processes and in turns: a real profile of
torch.profiler repeated to the wanted size (distinct times, ids and steps), 16 files of the same
total size with one reading process and with one for every core, and a folder of full Flight
Recorders. HTA from PyPI gets its own environment in the user's cache, without jupyterlab, which it
requires but does not need to load traces. Our own modules are compiled first, as pip compiles them
and those of HTA when it installs them. Seconds are those of whole processes, including start and
imports of modules; peaks are sums of the resident memory of a process and its children, measured
every 20 ms, with shared pages counted in each.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path

from made_traces import MB, Profile, write_flight_recorders

ROOT = Path(__file__).resolve().parent.parent
SOURCE = Path("../shared/traces/kineto/tracelens/mi300__resnet_act_checkpoint.json.gz")
HTA = "HolisticTraceAnalysis==0.5.0"
HTA_NEEDS = ("numpy", "pandas", "networkx", "plotly", "pydot", "psutil", "pyyaml")
PACKAGES = ("app", "diagnosis", "ingest", "trace_hooks")
NUM_FILES = 16
_LOOK_EVERY_S = 0.02

IMPORT = """
import sys
from app.cli import main
from ingest.imports import pool
cores = int(sys.argv[3])
if cores:
    pool.num_cores = lambda: cores
sys.exit(main(["import", sys.argv[1], "--into", sys.argv[2]]))
"""
LOAD_WITH_HTA = """
import sys
from hta.common.trace import Trace
trace = Trace(trace_files={0: sys.argv[1]}, trace_dir="/")
trace.load_traces(include_last_profiler_step=True, use_memory_profiling=False)
assert len(trace.get_trace(0))
"""
LOAD_WITH_PANDAS = """
import json, sys
import pandas
with open(sys.argv[1]) as file:
    frame = pandas.DataFrame(json.load(file)["traceEvents"])
assert len(frame)
"""


@dataclass
class Way:
    """One way of reading, and what its turns cost."""

    name: str
    num_bytes: int
    command: Callable[[Path], list[str]]
    """from a folder to write to"""
    seconds: list[float] = field(default_factory=list)
    peak_mb: list[float] = field(default_factory=list)

    def turn(self) -> None:
        """Read once."""
        with tempfile.TemporaryDirectory() as out:
            begun_s = time.perf_counter()
            process = subprocess.Popen(self.command(Path(out)), stdout=subprocess.DEVNULL)
            peak = 0
            while process.poll() is None:
                peak = max(peak, resident_bytes(process.pid))
                time.sleep(_LOOK_EVERY_S)
            self.seconds.append(time.perf_counter() - begun_s)
            self.peak_mb.append(peak / MB)
        if process.returncode:
            raise SystemExit(f"{self.name} ended with status {process.returncode}")

    @property
    def median_s(self) -> float:
        """Of all turns."""
        return statistics.median(self.seconds)

    @property
    def rate(self) -> float:
        """MB of files a second."""
        return self.num_bytes / MB / self.median_s


def resident_bytes(pid: int) -> int:
    """Of a process and all that it started; 0 once it has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0
    own = pages * os.sysconf("SC_PAGE_SIZE")
    return own + sum(resident_bytes(int(child)) for child in children)


def hta_python() -> Path:
    """The interpreter of an environment with HTA, made where it is not there yet."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    folder = cache / "rankscope-benchmarks" / HTA
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *HTA_NEEDS], check=True)
        subprocess.run([*pip, "--no-deps", HTA], check=True)
        (folder / "complete").touch()
    return python


def imports(path: Path, cores: int = 0) -> Callable[[Path], list[str]]:
    """The command that imports `path`, with as many processes as cores, or with this many."""
    return lambda out: [sys.executable, "-c", IMPORT, str(path), str(out), str(cores)]


def ways_of_profiles(folder: Path, source: Path, num_bytes: int) -> list[Way]:
    """Ways of reading a large profile, and 16 of as much together, with files in `folder`."""
    profile = Profile(source)
    one, many = folder / "rank-0.json", folder / "many"
    size, num_events = profile.write(one, num_bytes)
    print(f"{one.name}: {size / MB:.0f} MB, {num_events:,} events", file=sys.stderr)
    many.mkdir()
    sizes = [
        profile.write(many / f"rank-{rank}.json", num_bytes // NUM_FILES, rank)[0]
        for rank in range(NUM_FILES)
    ]
    python = str(hta_python())
    return [
        Way("rankscope", size, imports(one)),
        Way("HTA", size, lambda _: [python, "-c", LOAD_WITH_HTA, str(one)]),
        Way("json + pandas", size, lambda _: [python, "-c", LOAD_WITH_PANDAS, str(one)]),
        Way("16 files, 1 process", sum(sizes), imports(many, 1)),
        Way("16 files, all cores", sum(sizes), imports(many)),
    ]


def ways_of_dumps(folder: Path) -> list[Way]:
    """Importing 16 Flight Recorders, with their files in `folder`."""
    dumps, stacks = folder / "dumps", folder / "stacks"
    dump_bytes = write_flight_recorders(dumps, NUM_FILES, 0)
    stack_bytes = write_flight_recorders(stacks, NUM_FILES, 8)
    return [
        Way("16 Flight Recorders", dump_bytes, imports(dumps)),
        Way("16 Flight Recorders, stacks of 8", stack_bytes, imports(stacks)),
    ]


def report(ways: list[Way]) -> dict[str, float]:
    """The ratios that are aimed at, as far as they were measured."""
    way = {one.name: one for one in ways}
    ratios = {"flight_recorders_s": way["16 Flight Recorders"].median_s}
    if "rankscope" in way:
        alone, together = way["16 files, 1 process"], way["16 files, all cores"]
        ratios |= {
            "times_hta": way["rankscope"].rate / way["HTA"].rate,
            "times_pandas": way["rankscope"].rate / way["json + pandas"].rate,
            "peak_mb": max(way["rankscope"].peak_mb),
            "times_one_process": alone.median_s / together.median_s,
        }
    return ratios


AIMS = {
    "times_hta": "at least 5",
    "times_pandas": "no aim",
    "peak_mb": "at most 400",
    "times_one_process": "at least 1.6",
    "flight_recorders_s": "at most 1",
}


def conditions() -> dict[str, object]:
    """What the numbers depend on."""
    return {
        "cores": os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "pyarrow": version("pyarrow"),
        "hta": HTA,
    }


def show(ways: list[Way], ratios: dict[str, float]) -> None:
    """The table for people, in Markdown."""
    print("| | MB | s | MB/s | peak MB |\n|---|---|---|---|---|")
    for one in ways:
        size = f"{one.num_bytes / MB:,.0f}"
        print(
            f"| {one.name} | {size} | {one.median_s:.2f} | {one.rate:.0f} | "
            f"{statistics.median(one.peak_mb):,.0f} |"
        )
    print("\n| | | aim |\n|---|---|---|")
    for name, value in ratios.items():
        print(f"| {name} | {value:.2f} | {AIMS[name]} |")


def main() -> None:
    """Measure in turns and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--mb", type=int, default=500, help="size of the large file, and of the 16")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each way (3)")
    parser.add_argument("--quick", action="store_true", help="60 MB, one round")
    parser.add_argument("--dumps", action="store_true", help="only the Flight Recorders")
    parser.add_argument("--source", type=Path, default=SOURCE, help="a real profile to repeat")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    rounds, num_bytes = (1, 60 * MB) if options.quick else (options.rounds, options.mb * MB)
    meta = {**conditions(), "rounds": rounds}
    for package in PACKAGES:
        compileall.compile_dir(ROOT / package, quiet=1)
    with tempfile.TemporaryDirectory() as folder:
        ways = [] if options.dumps else ways_of_profiles(Path(folder), options.source, num_bytes)
        ways += ways_of_dumps(Path(folder))
        for _ in range(rounds):
            for one in ways:
                one.turn()
                print(f"{one.name}: {one.seconds[-1]:.2f} s", file=sys.stderr)
    ratios = report(ways)
    if options.json:
        plain = [{**asdict(one), "command": None} for one in ways]
        print(json.dumps({"conditions": meta, "ways": plain, "ratios": ratios}))
        return
    show(ways, ratios)
    print("\n" + ", ".join(f"{name} {value}" for name, value in meta.items()))


if __name__ == "__main__":
    main()
