"""What the job prints: recorded, passed on unchanged, and private unless allowed."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.analysis.diagnosis import diagnose_run
from ingest.run import open_run
from tests.trace_hooks.processes import begin, rows
from tests.trace_hooks.tiny_models import tracing
from tests.waiting import wait_until

FAILS = """
import sys, time, torch, torch.distributed as dist
import trace_hooks as th
dist.init_process_group("gloo")
tracer = th.start(run="fails")
print("dear diary")
for step in range(60):
    with tracer.step(step):
        time.sleep(0.05)
        if step == 50 and dist.get_rank() == 1:
            raise ValueError("bad batch 7")
        dist.all_reduce(torch.ones(10))
"""
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


class Stream(io.TextIOWrapper):
    """A stream as sys.stderr is one."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), write_through=True)

    @property
    def text(self) -> str:
        return self.buffer.getvalue().decode()


@contextmanager
def as_stderr() -> Iterator[Stream]:
    """A stream in place of sys.stderr, and no sys.stdout."""
    made, before = Stream(), (sys.stdout, sys.stderr)
    sys.stdout, sys.stderr = None, made  # type: ignore[assignment]
    try:
        yield made
    finally:
        sys.stdout, sys.stderr = before


def lines(traced: Any) -> list[dict[str, Any]]:
    return [values for table, values in traced.recorder.rows if table == "log_lines"]


def test_errors_are_recorded_and_the_stream_is_as_before() -> None:
    with as_stderr() as stream, tracing("logs") as traced:
        print("a sample of the data", file=sys.stderr)
        assert sys.stderr.write("ERROR: no space left on device\n") == 31
        sys.stderr.flush()
        traced.sources[0].poll()
        (row,) = lines(traced)
    assert (row["stream"], row["level"], row["line"]) == ("stderr", "error", 2)
    assert "write" not in vars(stream)
    assert stream.text == "a sample of the data\nERROR: no space left on device\n"


def test_all_lines_where_content_is_allowed() -> None:
    with as_stderr(), tracing("logs", allow_content=True) as traced:
        print("step 1", file=sys.stderr)
        print("unfinished", end="", file=sys.stderr)
    assert [row["text"] for row in lines(traced)] == ["step 1", "unfinished"]


def test_each_line_has_the_stream_that_it_was_written_to() -> None:
    with as_stderr():
        sys.stdout = Stream()
        with tracing("logs", allow_content=True) as traced:
            print("on stdout")
            print("on stderr", file=sys.stderr)
    assert [(row["stream"], row["text"]) for row in lines(traced)] == [
        ("stdout", "on stdout"),
        ("stderr", "on stderr"),
    ]


def test_a_write_that_fails_fails_as_before() -> None:
    with as_stderr(), tracing("logs") as traced:
        with pytest.raises(TypeError):
            sys.stderr.write(3)  # type: ignore[arg-type]
        assert lines(traced) == []


@pytest.mark.long
@pytest.mark.parametrize("own_files", [False, True], ids=["its pipe", "torchrun's files"])
def test_a_real_job_whose_rank_fails(tmp_path: Path, own_files: bool) -> None:
    module = (*TORCHRUN, "--redirects", "3", "--log-dir", str(tmp_path)) if own_files else TORCHRUN
    job = begin(tmp_path, FAILS, module=module, TRACE_HOOKS_SOURCES="collectives,logs")
    job.communicate(timeout=120)
    # those of a file are written by the watchdog, which lives on for a moment
    wait_until(lambda: {row["rank"] for row in rows(tmp_path, "log_lines")} == {0, 1})
    found = rows(tmp_path, "log_lines")
    assert not any("diary" in row["text"] for row in found)
    files = {row["file"] for row in found if row["rank"] == 1}
    assert files == {"attempt_0/1/stderr.log"} if own_files else {"stderr"}
    with open_run(tmp_path / "runs" / "fails") as run:
        diagnosis = diagnose_run(run)
    (finding,) = [one for one in diagnosis.findings if one.kind == "first_error"]
    assert [place.rank for place in finding.culprits] == [1]
    assert "ValueError: bad batch 7" in finding.title
