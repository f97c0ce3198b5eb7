"""Helpers of tests that start traced processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.folders import REPO
from trace_hooks.schema.reading import read_rows


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Environment of a traced process that keeps all it writes below `folder`."""
    kept = {
        n: v for n, v in os.environ.items() if not n.startswith(("TRACE_HOOKS", "SLURM", "PBS"))
    }
    return {
        **kept,
        "PYTHONPATH": str(REPO),
        "OMP_NUM_THREADS": "1",
        "PYTHONFAULTHANDLER": "1",  # stacks of all threads on SIGABRT
        "TRACE_HOOKS_FOLDER": str(folder / "runs"),
        "TRACE_HOOKS_RING_DIR": str(folder / "rings"),
        "TRACE_HOOKS_SOURCES": "gc",
        **more,
    }


def begin(
    folder: Path, code: str, *arguments: str, module: Sequence[str] = (), **environ: str
) -> subprocess.Popen[str]:
    """Start a script in `folder`; `module` are options before its name, such as -m trace_hooks."""
    script = folder / "script.py"
    script.write_text(code)
    return subprocess.Popen(
        [sys.executable, *module, str(script), *arguments],
        env=environment(folder, **environ),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(
    folder: Path, code: str, *arguments: str, module: Sequence[str] = (), **environ: str
) -> tuple[int, str, str]:
    """Run a script to its end; exit code, stdout and stderr."""
    process = begin(folder, code, *arguments, module=module, **environ)
    try:
        out, err = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
        raise AssertionError(f"it hung: {process.communicate()[1]}") from None
    return process.returncode, out, err


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    """All rows of a table below the runs of `folder`, in order of their segments."""
    runs = sorted((folder / "runs").glob("*"))
    return [row for run in runs for row in read_rows(run, table).to_pylist()]


def rank_files(folder: Path) -> list[dict[str, Any]]:
    """All rank files below the runs of `folder`, in order of attempt and rank."""
    paths = sorted((folder / "runs").glob("*/ranks/*.json"))
    return [json.loads(path.read_text()) for path in paths]
