"""The kit for GPUs without one: it skips, resumes, limits and reports. No result of a GPU."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks.gpu import report, runs
from benchmarks.gpu.figures import Figure, NotHere, Place, read_figures, to_line
from benchmarks.gpu.machine import Machine
from benchmarks.gpu.parts import PARTS, Part
from benchmarks.gpu.runs import REPO, Result, ResultFiles, run_part
from tests.waiting import wait_until

MACHINE = Machine(
    ["NVIDIA H200", "NVIDIA H200"], [139.8, 139.8], "2.13.0", "12.9", "2.27.3", "3.12"
)
NO_CUDA = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")


def kit(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.gpu", *arguments]
    return subprocess.run(command, cwd=REPO, capture_output=True, text=True, timeout=300)


@pytest.mark.long
@NO_CUDA
def test_without_a_device_every_part_is_skipped_and_none_has_passed(tmp_path: Path) -> None:
    done = kit("--results", str(tmp_path / "results"))
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) == len(PARTS)
    assert all(line.endswith("skipped: no CUDA device") for line in lines)
    assert "passed" not in done.stdout
    assert not (tmp_path / "results").exists()


def test_an_unknown_part_is_refused_with_a_sentence() -> None:
    done = kit("--only", "a,z")
    assert done.returncode == 2
    assert "parts are a, b, c, d, e, f, g, h, i, j" in done.stderr


@pytest.mark.long
@NO_CUDA
def test_losses_can_be_rehearsed_on_a_cpu(tmp_path: Path) -> None:
    done = kit("--rehearse", "--only", "e", "--results", str(tmp_path / "results"))
    assert done.returncode == 0, done.stdout
    assert "nothing here is a result of a GPU" in done.stdout
    assert "(e)" in done.stdout.splitlines()[-1]
    assert "rehearsed on the CPU, passed: 10 of 10 checks hold" in done.stdout
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.module)
def test_every_part_names_what_it_shows(part: Part) -> None:
    module = importlib.import_module(f"benchmarks.gpu.parts.{part.module}")
    assert (module.__doc__ or "").startswith(f"({part.letter}) ")
    assert callable(module.measure)


def result(part: Part, state: str = "passed", why: str = "", *figures: Figure) -> Result:
    return Result(part, state, why, list(figures), 1.5, "2026-11-23")


def test_what_ended_well_is_kept_and_what_did_not_runs_again(tmp_path: Path) -> None:
    files = ResultFiles(tmp_path, MACHINE)
    files.folder.mkdir()
    states = ("passed", "skipped", "failed", "stopped")
    kept = [
        result(part, state, "why", Figure("x", 1.5, "ms", True, "aim 2"))
        for part, state in zip(PARTS, states, strict=False)
    ]
    for one in kept:
        files.keep(one)
    again = ResultFiles(tmp_path, MACHINE)
    assert [again.ended_well(part) for part in PARTS[:5]] == [kept[0], kept[1], None, None, None]
    assert ResultFiles.all_below(tmp_path) == [(MACHINE, kept)]


FAKE_PARTS = {
    "ends": "place.say(Figure('x', 1.0, holds=True))",
    "misses": "place.say(Figure('x', 1.0, holds=True)); place.say(Figure('y', 2, holds=False))",
    "lacks": "place.say(Figure('x', 1.0)); raise NotHere('no NVLink here')",
    "raises": "place.say(Figure('x', 1.0)); raise ValueError('wrong')",
    "dies": "place.say(Figure('x', 1.0)); import os; os.abort()",
    "hangs": "place.say(Figure('x', 1.0)); import time; time.sleep(600)",
}


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("name", "state", "why"),
    [
        ("ends", "passed", ""),
        ("misses", "failed", "does not hold: y"),
        ("lacks", "skipped", "no NVLink here"),
        ("raises", "stopped", "its process ended with 1: ValueError: wrong"),
        ("dies", "stopped", "its process ended with -6"),
        ("hangs", "stopped", "more than 8 s"),
    ],
)
def test_how_a_part_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, state: str, why: str
) -> None:
    """Whatever it does, what it had found is kept."""
    code = f"from benchmarks.gpu.figures import *\ndef measure(place):\n    {FAKE_PARTS[name]}\n"
    kit_with(tmp_path, monkeypatch, code)
    outcome = run_part(Part("x", "fake", "nothing"), "cpu", tmp_path / "results")
    assert (outcome.state, why in outcome.why) == (state, True), outcome
    assert outcome.figures[0] == Figure("x", 1.0, holds=outcome.figures[0].holds)


def kit_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """A copy of the kit whose one part is made of this code, and has 8 seconds."""
    package = tmp_path / "benchmarks" / "gpu"
    for source in (REPO / "benchmarks" / "gpu").glob("*.py"):
        package.mkdir(parents=True, exist_ok=True)
        (package / source.name).write_bytes(source.read_bytes())
    (package / "parts").mkdir()
    (package / "parts" / "fake.py").write_text(code)
    monkeypatch.setattr(runs, "REPO", tmp_path)
    monkeypatch.setattr(runs, "LIMIT_S", 8)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


@pytest.mark.long
def test_a_part_that_takes_too_long_leaves_no_job_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that went on would hold the device while the next part measures."""
    path = tmp_path / "pid"
    code = (
        f"import subprocess, sys, time\nfrom pathlib import Path\ndef measure(place):\n"
        f"    job = subprocess.Popen(['sleep', '600'], process_group=0)\n"
        f"    Path({str(path)!r}).write_text(str(job.pid))\n    time.sleep(600)\n"
    )
    kit_with(tmp_path, monkeypatch, code)
    assert run_part(Part("x", "fake", "nothing"), "cpu", tmp_path / "results").state == "stopped"
    status = Path(f"/proc/{path.read_text()}/stat")
    wait_until(lambda: not status.exists() or status.read_text().split()[2] == "Z")


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "figures"
    path.write_text(to_line(Figure("a", 1.0)) + to_line(Figure("b", "text"))[:-5])
    assert read_figures(path) == [Figure("a", 1.0)]


def test_the_page_gets_tables_and_lists_what_was_not_run(tmp_path: Path) -> None:
    page = tmp_path / "gpu.md"
    page.write_text(f"before\n{report.BEGIN}earlier tables{report.END}\nafter\n")
    report.write(page, [])
    none = f"{report.BEGIN}\n\nNo part has been run on a GPU yet.\n\n{report.END}"
    assert page.read_text() == f"before\n{none}\nafter\n"
    figures = (Figure("a|b", 1234.5, "us", False, "aim 1"), Figure("c", "text"))
    report.write(page, [(MACHINE, [result(PARTS[0], "failed", "does not hold: a|b", *figures)])])
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "earlier tables" not in text
    assert text.count("not run") == len(PARTS) - 1
    assert "2 x NVIDIA H200 (139.8 GiB), driver unknown, torch 2.13.0" in text
    assert "| (a) | a\\|b | 1,234 us | **no** | aim 1 |" in text
    with pytest.raises(SystemExit, match="has no line"):
        report.write(_without_place(tmp_path), [])


def test_the_page_explains_how_to_read_each_part() -> None:
    page = (REPO / "docs" / "gpu.md").read_text()
    assert page.partition(report.PARTS_BEGIN)[2].strip().startswith(report.parts().strip()), (
        "python -m benchmarks.gpu --page docs/gpu.md"
    )


def _without_place(folder: Path) -> Path:
    page = folder / "other.md"
    page.write_text("nothing")
    return page


def test_a_rehearsal_is_recognized(tmp_path: Path) -> None:
    place = Place("cpu", tmp_path, lambda figure: None)
    assert (place.is_rehearsal, place.backend, place.sized(100, 2)) == (True, "gloo", 2)
    place.wait()
    place = Place("cuda", tmp_path, lambda figure: None)
    assert (place.is_rehearsal, place.backend, place.sized(100, 2)) == (False, "nccl", 100)
    assert issubclass(NotHere, Exception)
