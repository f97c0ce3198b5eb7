"""One process that reads files, as the pool sees it: answers in pieces, and each way to end."""

from __future__ import annotations

import select
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ingest.imports.worker import OUT_OF_MEMORY
from ingest.imports.worker_handle import Job, Process
from ingest.limits import limits

WAIT_S = 20.0


@contextmanager
def process(script: str) -> Iterator[Process]:
    """One that runs a script of the shell in place of a reader."""
    started = Process(["/bin/sh", "-c", script], Path("/nowhere"))
    try:
        yield started
    finally:
        started.end()


def job(seconds: int = 7) -> Job:
    return Job(number=3, name="a.json", num_bytes=10, seconds=seconds, order={"read": "a.json"})


def all_answers(running: Process) -> list[list[dict[str, Any]]]:
    """What came at each look, until its end."""
    looks: list[list[dict[str, Any]]] = []
    while True:
        assert select.select([running], [], [], WAIT_S)[0]
        answers = running.answers()
        if answers is None:
            return looks
        looks.append(answers)


def test_orders_go_there_and_answers_come_back() -> None:
    with process('read first; read second; echo "[$first, $second]"') as running:
        running.take(job())
        assert (running.job, running.had) == (job(), {3})
        assert all_answers(running) == [[[{"temporary": "/nowhere"}, {"read": "a.json"}]]]
        assert running.ending() == "the reader ended with status 0"


def test_an_answer_in_pieces_is_one() -> None:
    first, rest = """printf '{"bytes": 1}\\n{"by'""", """printf 'tes": 2}\\n'"""
    with process(f"{first}; read temporary; read order; {rest}") as running:
        assert select.select([running], [], [], WAIT_S)[0]
        assert running.answers() == [{"bytes": 1}]
        running.take(job())
        assert all_answers(running) == [[{"bytes": 2}]]


@pytest.mark.parametrize(
    ("script", "ending"),
    [
        ("exit 5", "the reader ended with status 5"),
        ("kill -ABRT $$", "the reader ended with signal 6 (SIGABRT)"),
        (
            "kill -KILL $$",
            "the reader ended with signal 9"
            " (SIGKILL, perhaps because the machine ran out of memory)",
        ),
        (
            "kill -XCPU $$",
            "the reader was stopped after 7 s; raise RANKSCOPE_MAX_FILE_SECONDS",
        ),
    ],
)
def test_how_it_ended(script: str, ending: str) -> None:
    with process(script) as running:
        running.take(job())
        assert all_answers(running) == []
        assert running.ending() == ending


def test_too_little_memory_names_the_limit() -> None:
    with process(f"exit {OUT_OF_MEMORY}") as running:
        bound = f"{limits().max_reader_mib:,} MiB of memory; raise RANKSCOPE_MAX_READER_MIB"
        assert running.ending() == f"the reader needed more than {bound}"


def test_it_is_ended_when_its_time_is_over() -> None:
    with process("exec sleep 60") as running:
        running.take(job())
        running.look_at_clock()
        assert not running.is_too_late
        running.take(job(seconds=0))
        running.look_at_clock()
        assert running.is_too_late
        stopped = "the reader was stopped after 0 s; raise RANKSCOPE_MAX_FILE_SECONDS"
        assert running.ending() == stopped


def test_its_last_words_are_one_printable_line() -> None:
    with process("printf 'first\\nlast\\033[2J %500s\\n\\n' x >&2") as running:
        running.ending()
        words = running.last_words()
        assert words.startswith("last")
        assert words.isprintable()
        assert len(words) == 400
    with process("true") as running:
        running.ending()
        assert running.last_words() == "it ended"


def test_a_process_that_is_gone_takes_its_order_in_vain() -> None:
    with process("exit 5") as running:
        assert all_answers(running) == []
        running.take(job())  # the pool sees the end
        assert running.ending() == "the reader ended with status 5"


def test_what_is_left_of_a_file() -> None:
    one = job()
    one.read_bytes = 4
    assert one.rest_bytes == 6
