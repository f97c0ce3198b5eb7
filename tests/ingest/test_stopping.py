"""A handle stops its query now, or as soon as it starts, and never a later one."""

from __future__ import annotations

import duckdb

from ingest.stopping import Stop


class _Query:
    num_interrupts = 0

    def interrupt(self) -> None:
        self.num_interrupts += 1
        raise duckdb.ConnectionException("it has ended meanwhile")


def test_a_query_under_way_is_stopped() -> None:
    stop, query = Stop(), _Query()
    stop.attach(query)
    stop()
    assert (stop.called, query.num_interrupts) == (True, 1)


def test_one_that_starts_after_the_call_is_stopped_at_once() -> None:
    stop, interrupted = Stop(), []

    class Starting:
        def interrupt(self) -> None:
            interrupted.append(self)

    stop()
    stop.attach(starting := Starting())
    assert interrupted == [starting]


def test_one_that_has_ended_is_left_alone() -> None:
    stop, query = Stop(), _Query()
    stop.attach(query)
    stop.detach()
    stop()
    assert query.num_interrupts == 0
