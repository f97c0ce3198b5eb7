"""`python -m trace_hooks script.py`: the script sees what it sees without hooks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trace_hooks.processes import rank_files, run
from trace_hooks.__main__ import read_arguments

SCRIPT = """
import multiprocessing, sys
import neighbour

class Point:
    def __init__(self, x): self.x = x

def double(point):
    return Point(2 * point.x + neighbour.ONE)

if __name__ == "__main__":
    print(sys.argv[1:], sys.path[0], __name__, __file__, __spec__)
    import __main__
    print(__main__.Point is Point)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print([p.x for p in pool.map(double, [Point(1), Point(2)])])
    if "fail" in sys.argv:
        {}["missing"]
    sys.exit(3 if "exit" in sys.argv else 0)
"""


@pytest.mark.parametrize("last", ["go", "fail", "exit"])
def test_output_traceback_and_exit_code_are_the_same(tmp_path: Path, last: str) -> None:
    (tmp_path / "neighbour.py").write_text("ONE = 1\n")
    plain = run(tmp_path, SCRIPT, "-x", last)
    traced = run(tmp_path, SCRIPT, "-x", last, module=["-m", "trace_hooks", "--run", "r"])
    assert traced == plain
    assert "[3, 5]" in plain[1]
    (rank,) = rank_files(tmp_path)  # the spawned worker is no rank
    assert rank["end"]["status"] == ("finished" if last == "go" else "failed")


def test_a_module_is_run_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("ONE = 1\n")
    (tmp_path / "script.py").write_text(SCRIPT)
    code, out, err = run(tmp_path, SCRIPT, module=["-m", "trace_hooks", "-m", "script"])
    assert (code, err) == (0, "")
    assert "[3, 5]" in out


def test_a_wrong_option_is_one_sentence(tmp_path: Path) -> None:
    code, out, err = run(tmp_path, "", module=["-m", "trace_hooks", "--level", "deep"])
    assert code == 1
    assert out == ""
    assert err.strip().count("\n") == 0
    assert "deep" in err


def test_a_script_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    code, out, err = run(tmp_path, "", module=["-m", "trace_hooks", str(tmp_path / "nothing.py")])
    assert (code, out) == (2, "")
    assert err == f"python -m trace_hooks: {tmp_path / 'nothing.py'} does not exist\n"


def test_torchrun_leaves_our_options_to_us() -> None:
    """torchrun completes what begins as one of its own options, even after the module's name."""
    from torch.distributed.run import get_args_parser

    options = ["--run-id", "r", "--folder", "f", "--layout", "l", "--level", "v", "--sources", "s"]
    given = get_args_parser().parse_args(["-m", "trace_hooks", *options, "t.py", "--lr", "1"])
    assert given.training_script == "trace_hooks"
    ours, script = read_arguments(given.training_script_args)
    assert (ours.run, ours.folder, ours.layout) == ("r", "f", "l")
    assert (ours.level, ours.sources) == ("v", "s")
    assert script == ["t.py", "--lr", "1"]
    assert read_arguments(["--run", "r", "t.py"])[0].run == "r"
