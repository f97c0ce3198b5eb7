"""Both distributions, built through their sdists and installed where nothing else is."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import zipfile
from pathlib import Path

import pytest

from benchmarks.browser import free_port
from tests.folders import REPO
from tests.packaging.lent import lend_what_is_needed
from trace_hooks.schema.reading import read_rows

pytestmark = pytest.mark.packaging

# what a training environment has in addition to torch itself
TORCH_AND_ITS_NEEDS = (
    "torch",
    "torchgen",
    "functorch",
    "sympy",
    "mpmath",
    "networkx",
    "jinja2",
    "markupsafe",
    "filelock",
    "fsspec",
    "typing_extensions.py",
)


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Output of a command in a clean environment; its errors fail the test."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TRACE_HOOKS"))}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=clean | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def clean_python(folder: Path, *wheels: Path) -> Path:
    """Python of a new venv with only these wheels and what they need."""
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
    run(*pip, "install", "--quiet", "--no-deps", *wheels, cwd=folder.parent)
    [site] = folder.glob("lib/python*/site-packages")
    lend_what_is_needed(site)
    return python


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Built wheels by distribution; `build` makes each from its sdist."""
    out = tmp_path_factory.mktemp("dist")
    for source in (REPO / "trace_hooks", REPO):
        run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, source, cwd=REPO)
    assert len(list(out.glob("*.tar.gz"))) == 2
    return {path.name.split("-")[0]: path for path in out.glob("*.whl")}


@pytest.fixture(scope="session")
def training_python(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training environment that took the hooks and nothing else."""
    return clean_python(tmp_path_factory.mktemp("hooks") / "venv", wheels["rankscope_hooks"])


@pytest.fixture(scope="session")
def dashboard_python(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the dashboard, as pipx makes it; without torch."""
    folder = tmp_path_factory.mktemp("dashboard") / "venv"
    return clean_python(folder, wheels["rankscope_hooks"], wheels["rankscope"])


def test_wheels_hold_every_file_of_the_checkout(wheels: dict[str, Path]) -> None:
    tracked = run("git", "ls-files", cwd=REPO).split()
    hooks = {name for name in tracked if name.startswith("trace_hooks/") and name.endswith(".py")}
    ours = {
        name
        for name in tracked
        if name.startswith(("app/", "ingest/", "diagnosis/", "sample_traces/"))
    }
    ours |= {f"app/{name}" for name in tracked if name.startswith("assets/")}
    in_hooks = set(zipfile.ZipFile(wheels["rankscope_hooks"]).namelist())
    in_ours = set(zipfile.ZipFile(wheels["rankscope"]).namelist())
    assert not hooks - in_hooks
    assert not ours - in_ours
    assert {n.split("/")[0] for n in in_hooks if ".dist-info/" not in n} == {"trace_hooks"}
    assert not any(n.startswith("trace_hooks/") for n in in_ours)


def test_hooks_import_without_torch_and_write_a_segment(
    training_python: Path, tmp_path: Path
) -> None:
    script = """
import sys
import trace_hooks as th
assert not {"torch", "dash", "duckdb", "pandas"} & set(sys.modules), "imports too much"
tracer = th.start("runs")
for number in range(3):
    with tracer.step(number), tracer.span("work", kind="host"):
        sum(range(1000))
tracer.stop()
from pathlib import Path
from trace_hooks.schema.reading import read_rows
(run,) = Path("runs").iterdir()
print(read_rows(run, "spans")["kind"].to_pylist().count("host"))
"""  # the garbage collector's spans may be there, too
    assert run(training_python, "-c", script, cwd=tmp_path).split() == ["3"]


@pytest.mark.long
@pytest.mark.torch
def test_training_next_to_a_users_own_app_and_ingest_folders(
    training_python: Path, tmp_path: Path
) -> None:
    import torch

    borrowed = tmp_path / "site"
    borrowed.mkdir()
    packages = Path(torch.__file__).parents[1]
    for name in TORCH_AND_ITS_NEEDS:
        (borrowed / name).symlink_to(packages / name)
    for name in ("app", "ingest"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"OWNER = 'the user, {name}'\n")
    (tmp_path / "train.py").write_text(
        """
import app, ingest, torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
print(app.OWNER, ingest.OWNER, sep="; ")
"""
    )
    printed = run(
        training_python,
        "-m",
        "trace_hooks",
        "train.py",
        cwd=tmp_path,
        PYTHONPATH=str(borrowed),
        TRACE_HOOKS_FOLDER="runs",
    )
    assert printed.strip() == "the user, app; the user, ingest"
    (recorded,) = tmp_path.glob("runs/*")
    assert read_rows(recorded, "steps").num_rows == 3


@pytest.mark.long
def test_rankscope_wheel_runs_its_commands_in_an_empty_folder(
    dashboard_python: Path, tmp_path: Path
) -> None:
    python = dashboard_python
    empty = tmp_path / "empty"
    empty.mkdir()
    rankscope = python.parent / "rankscope"
    assert "demo" in run(rankscope, "--help", cwd=empty)
    recorded = run(
        python,
        "-c",
        "import sample_traces; print(*sample_traces.recorded_runs(), sep='\\n')",
        cwd=empty,
    ).split()
    assert len(recorded) == 2
    for run_folder in recorded:
        info = json.loads(run(rankscope, "info", run_folder, "--json", cwd=empty))
        assert info["num_ranks"] == 8
        assert info["layout"] == {"pp": 2, "dp": 2, "tp": 2}
    run(rankscope, "generate", "made", "--ranks", "8", "--steps", "4", cwd=empty)
    (made,) = (path.parent for path in (empty / "made").rglob("run.json"))
    steps = run(
        rankscope, "query", made, "SELECT count(DISTINCT step) AS n FROM steps", "--csv", cwd=empty
    )
    assert steps.split() == ["n", "4"]


def fetched(url: str) -> str:
    """Text of an answer; raises for any status but 200."""
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read().decode()  # type: ignore[no-any-return]


def test_rankscope_wheel_serves_pages_and_their_files(
    dashboard_python: Path, tmp_path: Path
) -> None:
    find = "from importlib.util import find_spec; print(find_spec('torch'))"
    assert run(dashboard_python, "-c", find, cwd=tmp_path).strip() == "None"
    copy = tmp_path / "runs" / "slow_rank"
    shutil.copytree(
        REPO / "sample_traces" / "recorded" / "slow_rank",
        copy,
        ignore=shutil.ignore_patterns("index"),
    )
    port = free_port()
    with subprocess.Popen(
        [dashboard_python.parent / "rankscope", "serve", "runs", "--port", str(port)],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            base = f"http://127.0.0.1:{port}"
            wait_until_it_listens(port)
            assert fetched(f"{base}/healthz")
            page = fetched(f"{base}/run/slow_rank/overview")
            files = re.findall(r'(?:src|href)="(/assets/[^"]+)"', page)
            assert [name for name in files if name.endswith("main.mjs")]
            assert [name for name in files if name.endswith("all.css")]
            assert all(fetched(f"{base}{name}") for name in files)
        finally:
            server.send_signal(signal.SIGINT)
            error = server.communicate(timeout=30)[1]
        assert server.returncode == 0, error
        assert "Traceback" not in error


def wait_until_it_listens(port: int, seconds: float = 60.0) -> None:
    """Return once a port accepts connections; fails the test where that takes too long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.1)
    pytest.fail(f"nothing listens on port {port}")
