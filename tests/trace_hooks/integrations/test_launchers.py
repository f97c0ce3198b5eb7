"""Launchers that start a job's ranks themselves: one run with all ranks, the same losses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.folders import REPO
from tests.trace_hooks.processes import environment, rank_files, rows
from trace_hooks import inherit

pytestmark = pytest.mark.torch

SCRIPT = """
import os, torch, torch.distributed as dist
from torch import nn

torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(0)
model = nn.parallel.DistributedDataParallel(nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = model(torch.ones(2, 4) * (dist.get_rank() + 1)).square().sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
open(f"loss-{os.environ['RANK']}", "w").write(loss.item().hex())
"""

LAUNCHERS = {
    "accelerate": ["accelerate", "launch", "--multi_gpu", "--num_processes", "2"],
    "deepspeed": ["deepspeed", "--num_accelerators", "2"],
}


def launched(
    folder: Path, launcher: str, *module: str, ends_well: bool = True, **environ: str
) -> list[float]:
    """Losses of both ranks; `module`: options before the script's name."""
    pytest.importorskip(launcher)
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(SCRIPT)
    name, *options = LAUNCHERS[launcher]
    command = [str(Path(sys.executable).with_name(name)), *options, *module, "train.py"]
    known = environment(folder, DS_ACCELERATOR="cpu", TRACE_HOOKS_SOURCES="modules,optimizer")
    path = f"{Path(sys.executable).parent}{os.pathsep}{known['PATH']}"
    done = subprocess.run(
        command,
        env={**known, "PATH": path, **environ},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0 or not ends_well, done.stdout + done.stderr
    return [float.fromhex((folder / f"loss-{rank}").read_text()) for rank in range(2)]


def is_one_run(folder: Path) -> None:
    ranks = [(info["rank"], info["world_size"], info["attempt"]) for info in rank_files(folder)]
    assert ranks == [(0, 2, 0), (1, 2, 0)]
    assert len(list((folder / "runs").iterdir())) == 1
    assert len(rows(folder, "steps")) == 6


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_ranks_of_a_launcher_inherit_the_hooks(tmp_path: Path, launcher: str) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / inherit.FILE).write_text(inherit.LINE)
    (tmp_path / "sitecustomize.py").write_text(f"import site; site.addsitedir({str(site)!r})\n")
    found = {"PYTHONPATH": f"{tmp_path}:{REPO}"}
    traced = launched(tmp_path / "traced", launcher, TRACE_HOOKS_AUTO="1", **found)
    # without hooks a rank now and then aborts in torch, when all is done
    plain = launched(tmp_path / "plain", launcher, ends_well=False, **found)
    assert traced == plain
    is_one_run(tmp_path / "traced")
    assert not (tmp_path / "plain" / "runs").exists()


def test_accelerate_runs_the_hooks_as_a_module(tmp_path: Path) -> None:
    launched(tmp_path, "accelerate", "-m", "trace_hooks")
    is_one_run(tmp_path)
