"""Hostile SELECTs in a row, and all slots occupied: effects on other users and on memory."""

from __future__ import annotations

import argparse
import threading
import time
from collections import Counter
from http import HTTPStatus
from itertools import cycle, islice
from typing import Any

from browser import Server

from abuse_parts.server import (
    OWNER,
    RUNS,
    VIEWERS,
    Session,
    Visitors,
    children_rss_mb,
    counted,
    has_ended,
    health,
    sampled_memory,
    server_rss_mb,
    takes_post,
    until,
)
from abuse_parts.texts import HOSTILE, LASTING

QUIET_S, REST_S, HELD_S = 15.0, 10.0, 8.0
FREE_LIMIT_S = 120.0
DIED = "server died"
HOLDERS_OF_EACH = 3
"""Long queries that each viewer sends at once to occupy every slot."""
PATHS = [
    path.format(run=run)
    for run in RUNS
    for path in (
        "/run/{run}/overview",
        "/run/{run}/timeline",
        "/run/{run}/ranks",
        "/run/{run}/query",
        "/api/runs",
        "/api/run/{run}/findings",
        "/api/run/{run}/strip",
        "/api/run/{run}/timeline",
        "/api/run/{run}/ranks/layout",
        "/api/run/{run}/ranks/grid?metric=compute",
        "/api/run/{run}/ranks/heat?metric=compute&width=300&height=200",
        "/api/run/{run}/query?q=run_summary",
        "/api/run/{run}/query?q=slowest_ranks",
        "/api/run/{run}/query?q=where_time_goes",
    )
]
"""The visitors' requests: pages, tiles, grids, heat maps and saved queries."""

Row = dict[str, Any]
"""Measure -> value."""


def attacked(server: Server, options: argparse.Namespace) -> Row:
    """Visitors and memory while one viewer sends hostile queries in a row."""
    is_post = takes_post(server.port, RUNS[0])
    warm = Session(server.port, OWNER)
    failing = {path for path in PATHS * 2 if warm.ask(path).status >= 400}
    warm.close()
    if failing:
        raise SystemExit(f"ordinary requests fail before the attack: {sorted(failing)}")
    with Visitors(server.port, PATHS) as quiet:
        time.sleep(QUIET_S)
    before_mb = server_rss_mb(server)
    before_children_mb = children_rss_mb(server.pid)
    with sampled_memory(server, options.most_gb) as memory:
        with Visitors(server.port, PATHS) as meanwhile:
            outcomes, took_s = send_hostile(server, options, is_post)
        time.sleep(REST_S)
        after_mb, after_children_mb = server_rss_mb(server), children_rss_mb(server.pid)
        places = exhausted(server, is_post)
    more_mb = "a new one" if outcomes[DIED] else round(after_mb - before_mb)
    return {
        "free SQL goes by": "POST" if is_post else "GET",
        "hostile queries": counted(outcomes),
        "seconds they took": round(took_s),
        "others, quiet: p50 ms": quiet.p50_ms,
        "others, quiet: p95 ms": quiet.p95_ms,
        "others, attacked: p50 ms": meanwhile.p50_ms,
        "others, attacked: p95 ms": meanwhile.p95_ms,
        "p95, attacked / quiet": round(meanwhile.p95_ms / quiet.p95_ms, 2),
        "others: requests, quiet and attacked": f"{len(quiet.answers)}, {len(meanwhile.answers)}",
        "others: failed, attacked": meanwhile.num_failed,
        f"server killed at {options.most_gb} GB": memory.num_killed,
        "server MB before": round(before_mb),
        "server MB, most": round(memory.server_mb),
        "server MB 10 s after": round(after_mb),
        "server MB more 10 s after": more_mb,
        "child processes MB before": round(before_children_mb),
        "child processes MB, most": round(memory.children_mb),
        "child processes MB 10 s after": round(after_children_mb),
        "together MB, most": round(memory.together_mb),
    } | places


def send_hostile(
    server: Server, options: argparse.Namespace, is_post: bool
) -> tuple[Counter[str], float]:
    """One viewer's queries, one after the other; their results, and how long they took."""
    outcomes: Counter[str] = Counter()
    begun_s = time.monotonic()
    for name in islice(cycle(HOSTILE), options.hostile):
        if time.monotonic() - begun_s > options.seconds:
            outcomes["not sent, time was up"] = options.hostile - outcomes.total()
            break
        session = Session(server.port, VIEWERS[0], options.patience)
        answer = session.select(RUNS[1], HOSTILE[name], is_post)
        session.close()
        if has_ended(server):
            outcomes[DIED] += 1
            server.kill()  # it may still be writing its core
            server.start()
            continue
        outcomes[str(answer.status or "left by the client")] += 1
    if not options.hostile:
        time.sleep(options.seconds)  # the visitors alone: what they themselves leave in memory
    return outcomes, time.monotonic() - begun_s


def exhausted(server: Server, is_post: bool) -> Row:
    """Health and free SQL of the operator while the viewers' queries occupy every slot."""

    def hold(secret: str, name: str) -> None:
        session = Session(server.port, secret, HELD_S)
        statuses.append(session.select(RUNS[1], HOSTILE[name], is_post).status)
        session.close()

    def is_free() -> bool:
        return owner.select(RUNS[0], "SELECT 1", is_post).status == HTTPStatus.OK

    statuses: list[int] = []
    holding = zip(VIEWERS * HOLDERS_OF_EACH, cycle(LASTING), strict=False)
    threads = [threading.Thread(target=hold, args=each) for each in holding]
    for thread in threads:
        thread.start()
    time.sleep(HELD_S / 4)
    answer, ms = health(server.port)
    owner = Session(server.port, OWNER, 2 * HELD_S)
    meanwhile = owner.select(RUNS[0], "SELECT 1", is_post)
    for thread in threads:
        thread.join()
    free_s = until(is_free, FREE_LIMIT_S)
    owner.close()
    free = f"not within {FREE_LIMIT_S:.0f}" if free_s is None else free_s
    return {
        "all places taken: /healthz says": answer,
        "all places taken: /healthz ms": round(ms),
        "all places taken: answers to viewers": counted(
            Counter(str(status or "left by the client") for status in statuses)
        ),
        "all places taken: operator's SELECT": meanwhile.status or "no answer",
        "all places taken: operator's SELECT ms": round(meanwhile.ms),
        "free again s after they left": free,
    }
