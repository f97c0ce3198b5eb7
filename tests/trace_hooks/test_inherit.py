"""Ranks that a script starts itself: traced from init_process_group on, as one run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.folders import REPO
from tests.trace_hooks.processes import rank_files, rows, run
from trace_hooks import inherit

SPAWNS = """
import os, sys, torch, torch.distributed as dist, torch.multiprocessing as mp
from torch import nn

def rank_of(rank, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    model = nn.parallel.DistributedDataParallel(nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    if "trace_hooks" in sys.modules:
        sys.modules["trace_hooks"].start().stop()  # the tracer that is running
    os._exit(0)  # torch 2.13 aborts one spawned gloo process in ten that ends by itself

if __name__ == "__main__":
    print("torch.distributed" in sys.modules, len(sys.meta_path))
    mp.spawn(rank_of, (sys.argv[1],), 2)
"""


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """Environment of a Python whose site-packages have the line that `install` writes."""
    site = tmp_path / "site"
    site.mkdir()
    (site / inherit.FILE).write_text(inherit.LINE)
    (tmp_path / "sitecustomize.py").write_text(f"import site; site.addsitedir({str(site)!r})\n")
    return {"PYTHONPATH": f"{tmp_path}:{REPO}", "TRACE_HOOKS_SOURCES": "modules,optimizer"}


@pytest.mark.torch
@pytest.mark.long
@pytest.mark.parametrize("module", [[], ["-m", "trace_hooks"]], ids=["plain", "traced"])
def test_spawned_ranks_are_one_run(
    tmp_path: Path, installed: dict[str, str], module: list[str]
) -> None:
    code, _, err = run(
        tmp_path, SPAWNS, f"{tmp_path}/store", module=module, TRACE_HOOKS_AUTO="1", **installed
    )
    assert code == 0, err
    ranks = rank_files(tmp_path)
    assert [(info["rank"], info["world_size"], info["attempt"]) for info in ranks] == [
        (0, 2, 0),
        (1, 2, 0),
    ]
    assert len(list((tmp_path / "runs").iterdir())) == 1
    assert len(rows(tmp_path, "steps")) == 6


@pytest.mark.long
@pytest.mark.torch
def test_without_the_variable_nothing_is_inherited_and_the_run_says_so(
    tmp_path: Path, installed: dict[str, str]
) -> None:
    code, _, err = run(
        tmp_path, SPAWNS, f"{tmp_path}/store", module=["-m", "trace_hooks"], **installed
    )
    assert code == 0, err
    (info,) = rank_files(tmp_path)
    assert info["world_size"] == 1
    notes = [row["text"] for row in rows(tmp_path, "marks") if row["kind"] == "note"]
    assert any("TRACE_HOOKS_AUTO=1" in note for note in notes)


def test_a_process_that_joins_no_group_imports_nothing(
    tmp_path: Path, installed: dict[str, str]
) -> None:
    script = "import sys; print([n for n in sys.modules if n in ('torch', 'pyarrow')])"
    assert run(tmp_path, script, TRACE_HOOKS_AUTO="1", **installed)[:2] == (0, "[]\n")
    assert not (tmp_path / "runs").exists()


def test_install_and_uninstall(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(inherit.sysconfig, "get_paths", lambda: {"purelib": str(tmp_path)})
    inherit.main(["install"])
    assert (tmp_path / inherit.FILE).read_text() == inherit.LINE
    inherit.main(["uninstall"])
    inherit.main(["uninstall"])
    assert not list(tmp_path.iterdir())
    assert "TRACE_HOOKS_AUTO=1 switches it on" in capsys.readouterr().out
    monkeypatch.setattr(inherit.sysconfig, "get_paths", lambda: {"purelib": f"{tmp_path}/none"})
    with pytest.raises(SystemExit, match=r"none.*No such file"):
        inherit.main(["install"])


def test_the_function_that_is_wrapped_keeps_its_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    module = type(sys)("torch.distributed.distributed_c10d")

    def init_process_group(backend: str) -> str:
        return backend

    module.init_process_group = init_process_group  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, inherit.TARGET, module)
    monkeypatch.setenv("TRACE_HOOKS", "0")
    for _ in range(2):
        inherit.begin()
    wrapped = module.init_process_group
    assert wrapped.__wrapped__ is init_process_group
    assert wrapped("gloo") == "gloo"
