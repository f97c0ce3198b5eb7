"""Runs a job with and without hooks, and compares what it computed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.frameworks.cases import JOBS, Case

REPO = Path(__file__).resolve().parents[2]
LIMIT_S = 400.0
WAYS = ("plain", "hooks", "lines")
"""Without hooks; under `python -m trace_hooks`; with the lines of docs/frameworks.md in it."""


@dataclass
class Ran:
    """How a job ended: `reports` by rank, from jobs/report.py."""

    code: int
    reports: dict[int, dict[str, Any]]
    runs: list[Path]
    log: str


def ran(case: Case, way: str, folder: Path, python: Path, steps: int) -> Ran:
    """Run a job in `folder` with the environment of `python`; it is killed after LIMIT_S."""
    folder.mkdir(parents=True)
    done = subprocess.run(
        ["timeout", "-k", "10", str(LIMIT_S), *command(case, way, python)],
        cwd=folder,
        env=environment(case, way, folder, steps),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    found = [json.loads(path.read_text()) for path in folder.glob("rank-*.json")]
    reports = {report["rank"]: report for report in found}
    return Ran(done.returncode, reports, sorted((folder / "runs").glob("*")), done.stdout)


def command(case: Case, way: str, python: Path) -> list[str]:
    """The command line, as docs/frameworks.md gives it."""
    hooks = ["-m", "trace_hooks"] if way == "hooks" else []
    script = [str(JOBS / case.script), *case.arguments]
    if case.own_launcher:
        return [str(python), *hooks, *script]
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(case.ranks)]
    return [str(python), *torchrun, *hooks, *script]


def environment(case: Case, way: str, folder: Path, steps: int) -> dict[str, str]:
    """Variables of a job; with hooks, and an own launcher, its ranks inherit the hooks."""
    device = "cuda" if case.on_gpus else "cpu"
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("TRACE_HOOKS", "SLURM"))}
    own = {
        "PYTHONPATH": os.pathsep.join([str(folder), str(REPO)]),
        "OMP_NUM_THREADS": "1",
        "FRAMEWORKS_DEVICE": device,
        "FRAMEWORKS_RANKS": str(case.ranks),
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "FRAMEWORKS_REPORT": str(folder),
        "FRAMEWORKS_STEPS": str(steps),
        "TRACE_HOOKS_FOLDER": str(folder / "runs"),
        "TRACE_HOOKS_RING_DIR": str(folder),
    }
    if case.on_gpus:
        own["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # the same sums in the same order each time
    else:
        own["CUDA_VISIBLE_DEVICES"] = ""
    if way == "lines":
        own["FRAMEWORKS_LINES"] = "1"
    if way == "hooks" and case.own_launcher:
        own["TRACE_HOOKS_AUTO"] = "1"
        # as `python -m trace_hooks.inherit install` writes it, for this job alone
        line = "import trace_hooks.inherit\ntrace_hooks.inherit.begin()\n"
        (folder / "sitecustomize.py").write_text(line, encoding="utf-8")
    return kept | own | dict(case.environ)


def versions(python: Path, distributions: tuple[str, ...]) -> dict[str, str]:
    """Versions of distributions in the environment of `python`."""
    code = (
        "import json, sys\nfrom importlib.metadata import version\n"
        "print(json.dumps({name: version(name) for name in sys.argv[1:]}))"
    )
    done = subprocess.run(
        [str(python), "-c", code, *distributions], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{python} lacks one of {', '.join(distributions)}; make test-frameworks has them")
    found: dict[str, str] = json.loads(done.stdout)
    return found
