"""Times of realistic SELECTs: alone, by several users at once, and the first of all."""

from __future__ import annotations

import threading
from http import HTTPStatus

from browser import Server
from timing import in_turns

from abuse_parts.server import OWNER, RUNS, VIEWERS, Session, percentile, takes_post
from abuse_parts.texts import ORDINARY

AT_ONCE = 4

Times = dict[str, float]
"""Of each server."""


def ordinary(servers: dict[str, Server], rounds: int) -> dict[str, Times]:
    """Rows of the table; the servers take turns at each SELECT. Ends the script where one fails."""
    posts = {name: takes_post(server.port, RUNS[0]) for name, server in servers.items()}
    sessions = {name: Session(server.port, OWNER) for name, server in servers.items()}

    def ms(name: str, run: str, text: str) -> float:
        return _select_ms(sessions[name], run, text, posts[name])

    rows = {
        f"first SELECT, {run} run, ms": {n: ms(n, run, "FROM steps LIMIT 1") for n in servers}
        for run in RUNS
    }
    of_all: dict[str, list[float]] = {name: [] for name in servers}
    for run in RUNS:
        for title, text in ORDINARY.items():

            def turn(name: str, run: str = run, text: str = text) -> float:
                return ms(name, run, text)

            in_turns(servers, 1, turn)  # planned and read for the first time
            times_ms = in_turns(servers, rounds, turn)
            rows[f"{run}: {title}, ms"] = {n: percentile(t, 50) for n, t in times_ms.items()}
            for name, taken in times_ms.items():
                of_all[name] += taken
    rows["all of them: p50 ms"] = {name: percentile(taken, 50) for name, taken in of_all.items()}
    rows["all of them: p95 ms"] = {name: percentile(taken, 95) for name, taken in of_all.items()}
    crowd = in_turns(servers, max(rounds // 4, 2), lambda n: _at_once(servers[n], posts[n]))
    for percent in (50, 95):
        rows[f"{AT_ONCE} viewers at once: p{percent} ms"] = {
            name: percentile([each for turn_ms in turns for each in turn_ms], percent)
            for name, turns in crowd.items()
        }
    return rows


def _select_ms(session: Session, run: str, text: str, is_post: bool) -> float:
    answer = session.select(run, text, is_post)
    if answer.status != HTTPStatus.OK:
        raise SystemExit(f"an ordinary SELECT fails: {answer.status} {answer.body[:300]!r}\n{text}")
    return round(answer.ms, 1)


def _at_once(server: Server, is_post: bool) -> list[float]:
    """Times of all SELECTs when several viewers send them at the same time."""
    times_ms: list[float] = []
    texts = [(run, text) for run in RUNS for text in ORDINARY.values()]

    def ask_all(number: int) -> None:
        session = Session(server.port, VIEWERS[number])
        first = number * len(texts) // AT_ONCE
        for run, text in texts[first:] + texts[:first]:
            times_ms.append(_select_ms(session, run, text, is_post))
        session.close()

    threads = [threading.Thread(target=ask_all, args=(number,)) for number in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(times_ms) < AT_ONCE * len(texts):
        raise SystemExit("ordinary SELECTs of viewers at the same time fail; see above")
    return times_ms
