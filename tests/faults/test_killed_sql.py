"""SIGKILL of the process of free SQL: a sentence for that query, and the next one works."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.faults.serving import ROUNDS, Server, serving
from tests.runs_builder import two_rank_run
from tests.waiting import wait_until

PROCESS = "ingest.free_sql"
SLOW = "SELECT count(*) FROM range(10000000) a, range(10000000) b"
MOST_MORE_BYTES = 50 << 20


def sent(server: Server, text: str) -> tuple[threading.Thread, list[tuple[int, dict[str, Any]]]]:
    """A query that is under way, and where its answer will be."""
    answers: list[tuple[int, dict[str, Any]]] = []
    thread = threading.Thread(target=lambda: answers.append(server.select("job", text)))
    thread.start()
    return thread, answers


@pytest.mark.faults
def test_a_killed_process_of_sql_costs_its_query_a_sentence(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    two_rank_run(runs / "job")
    with serving(runs, tmp_path) as server:
        status, answer = server.select("job", "SELECT count(*) AS n FROM spans")
        assert (status, answer["rows"]) == (200, [[30]])
        before_bytes, before_descriptors = server.resident_bytes(), server.num_descriptors()
        for number in range(ROUNDS):
            thread, answers = sent(server, SLOW)
            wait_until(lambda: server.children(PROCESS))
            time.sleep(random.Random(number).uniform(0.0, 0.5))
            while thread.is_alive():  # a query that had not begun goes on in a new process
                for pid in server.children(PROCESS):
                    os.kill(pid, signal.SIGKILL)
                thread.join(2.0)
            ((status, answer),) = answers
            assert status >= 400
            assert answer["error"].strip()
            assert "Traceback" not in answer["error"]
            assert server.select("job", "SELECT count(*) AS n FROM spans")[1]["rows"] == [[30]]
        assert server.resident_bytes() < before_bytes + MOST_MORE_BYTES
        wait_until(lambda: server.num_descriptors() <= before_descriptors + 4)
