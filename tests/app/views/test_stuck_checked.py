"""What was checked where nothing is stuck."""

from __future__ import annotations

import pyarrow as pa
import pytest

from app.views.stuck_checked import heard_ns, what_was_checked


def signs(*statuses: str | None) -> pa.Table:
    schema = pa.schema([("last_ns", pa.int64()), ("status", pa.string())])
    rows = [{"last_ns": rank, "status": status} for rank, status in enumerate(statuses)]
    return pa.Table.from_pylist(rows, schema)


@pytest.mark.parametrize(
    ("statuses", "text"),
    [
        ((None, None), "Heartbeats of 2 ranks came in. No watchdog saw a rank"),
        ((None,), "Heartbeats of 1 of 2 ranks came in."),
        ((None, "failed"), "Heartbeats of 2 ranks came in; 1 failed."),
        (("finished", "finished"), "2 ranks ended: 2 finished."),
        (("finished", "failed"), "2 ranks ended: 1 failed, 1 finished."),
        ((), "No rank has sent a heartbeat"),
    ],
)
def test_a_job_with_hooks(statuses: tuple[str | None, ...], text: str) -> None:
    assert what_was_checked("hooks", signs(*statuses), 2).startswith(text)


def test_files_that_were_imported() -> None:
    text = what_was_checked("flight_recorder", signs(), 16)
    assert text == "The dumps of 16 ranks were compared: which collectives each has entered."
    assert "logs were searched" in what_was_checked("logs", signs(), 1)


def test_when_a_rank_reported_last() -> None:
    assert heard_ns(signs(None, None)) == 1
    assert heard_ns(signs()) is None


def test_ranks_that_stood_still_for_a_while() -> None:
    text = what_was_checked("hooks", signs(None, None), 2, num_looked=1)
    assert "Watchdogs looked at 1 rank that neither began a step" in text
