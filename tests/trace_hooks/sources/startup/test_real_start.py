"""A real process that is slow in several phases, from its own start to its first step."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trace_hooks.processes import rows, run

SCRIPT = """
import time
import slow_library
import torch

def load_checkpoint():
    time.sleep(0.7)

def index_corpus():
    time.sleep(0.7)

class Slow(torch.nn.Linear):
    def reset_parameters(self):
        time.sleep(0.7)

import trace_hooks
load_checkpoint()
model = Slow(2, 2)
index_corpus()
tracer = trace_hooks.start()  # the one that runs already
with tracer.step():
    time.sleep(0.7)
time.sleep(0.7)
"""


@pytest.mark.long
def test_phases_of_a_real_start_are_rows_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "slow_library.py").write_text("import time\ntime.sleep(0.7)\n")
    code, _, err = run(
        tmp_path, SCRIPT, module=("-m", "trace_hooks"), TRACE_HOOKS_SOURCES="startup"
    )
    assert code == 0, err
    found = sorted(rows(tmp_path, "startup"), key=lambda row: row["ts_ns"])
    seen = [(row["phase"], row["what"]) for row in found]
    wanted = [
        ("before", "imports and what else ran before trace_hooks.start"),
        ("hooks", "trace_hooks.start"),
        ("imports", "slow_library.py at script.py:3"),
        ("restore", "load_checkpoint (script.py) at script.py:17"),
        ("model", "__init__ (linear.py) at script.py:18"),
        ("other", "index_corpus (script.py)"),
    ]
    assert [one for one in dict.fromkeys(seen) if one in wanted] == wanted
    assert {row["step"] for row in found} == {-1}
    (step,) = rows(tmp_path, "steps")
    assert all(row["ts_ns"] + row["dur_ns"] <= step["start_ns"] for row in found)
