"""A server under attack: what do other users notice, and how much slower are ordinary queries?

python benchmarks/abuse.py [--checkout NAME=PATH ...] [--only queries|connections|ordinary] [--json]

Starts the real server, of this checkout or of each --checkout in turn, on a copy of a recorded run
and a larger generated one, with a token for an operator and eight for viewers.

queries: two visitors request pages, tiles and saved queries, first alone, then while one viewer
sends --hostile SELECTs in a row (abuse_parts/texts.py) and disconnects after --patience seconds
each; then the viewers occupy every slot. Memory of the server 10 s after the last one.
connections: --half-open requests, WebSocket handshakes and silent ranks stay open, with
--descriptors for the server; then a client sends wrong tokens as fast as possible.
ordinary: realistic SELECTs, alone and by four viewers at once; the checkouts take turns at each
SELECT. The first one after the server's start is reported separately.

A server that uses more than --most-gb with its children is killed and started again, as the kernel
of a smaller machine would do, so that a measurement does not bring this machine down.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

from abuse_parts.connections import KINDS, crowded, guessed
from abuse_parts.hostile import attacked
from abuse_parts.ordinary import ordinary
from abuse_parts.server import OWNER, RUNS, TOKENS, Session, until
from browser import RANKSCOPE, REPO, Server, clean_environment, conditions, loop_ms

RECORDED = REPO / "sample_traces" / "recorded" / "slow_rank"
SIZE = ("--ranks", "128", "--pp", "4", "--tp", "4", "--steps", "100")
SECTIONS = ("queries", "connections", "ordinary")
READY_S = 120.0

Table = dict[str, dict[str, Any]]
"""Measure -> checkout -> value."""


def make_runs(folder: Path) -> None:
    """The recorded run and a larger one."""
    folder.mkdir()
    shutil.copytree(RECORDED, folder / RUNS[0], ignore=shutil.ignore_patterns("index"))
    command = [*RANKSCOPE, "generate", str(folder / RUNS[1]), *SIZE]
    subprocess.run(command, cwd=REPO, env=clean_environment(), check=True, capture_output=True)


@contextmanager
def serving(runs: Path, checkout: Path, *limits: str) -> Iterator[Server]:
    """A server of a checkout whose pages have all been opened once."""
    server = Server(runs, *TOKENS, checkout=checkout, limits=limits)
    try:
        server.start()
        session = Session(server.port, OWNER)
        for run in RUNS:  # their indexes are built
            path = f"/api/run/{run}/findings"
            until(lambda path=path: session.ask(path).status == HTTPStatus.OK, READY_S)
        session.close()
        yield server
    finally:
        if server.process is not None:
            server.kill()


def of_each(
    checkouts: dict[str, Path],
    runs: Path,
    limits: list[str],
    measure: Callable[[Server], dict[str, Any]],
) -> Table:
    """A measurement of each checkout's server, one after the other."""
    table: Table = {}
    for name, checkout in checkouts.items():
        with serving(runs, checkout, *limits) as server:
            row = {"loop_ms": loop_ms(), **measure(server)}
        for title, value in row.items():
            table.setdefault(title, {})[name] = value
    return table


def side_by_side(checkouts: dict[str, Path], runs: Path, rounds: int) -> Table:
    """Ordinary SELECTs; servers of all checkouts run at the same time and take turns."""
    with ExitStack() as started:
        servers = {
            name: started.enter_context(serving(runs, checkout))
            for name, checkout in checkouts.items()
        }
        table: Table = {"loop_ms": dict.fromkeys(servers, loop_ms())}
        return table | ordinary(servers, rounds)


def measured(options: argparse.Namespace) -> dict[str, Table]:
    """All requested sections."""
    few = [f"--nofile={options.descriptors}"]
    tables: dict[str, Table] = {}
    with tempfile.TemporaryDirectory() as scratch:
        runs = Path(scratch) / "runs"
        make_runs(runs)
        if "ordinary" in options.only:
            tables["ordinary SELECTs"] = side_by_side(options.checkout, runs, options.rounds)
        if "connections" in options.only:
            for kind in KINDS:
                tables[f"{options.half_open} {kind}"] = of_each(
                    options.checkout,
                    runs,
                    few,
                    lambda server, kind=kind: crowded(server, kind, options.half_open),
                )
            tables["guessed tokens"] = of_each(options.checkout, runs, few, guessed)
        if "queries" in options.only:
            tables["hostile queries"] = of_each(
                options.checkout, runs, [], lambda server: attacked(server, options)
            )
    return tables


def as_text(meta: dict[str, Any], tables: dict[str, Table]) -> str:
    """Conditions, then a table for each section; the last column compares the last checkout with
    the first.
    """
    lines = [", ".join(f"{key} {value}" for key, value in meta.items())]
    for section, table in tables.items():
        names = list(next(iter(table.values())))
        lines += ["", f"{section:44} " + " ".join(f"{name:>16}" for name in names)]
        for title, values in table.items():
            cells = [values.get(name, "-") for name in names]
            lines.append(f"  {title:42} " + " ".join(f"{cell!s:>16}" for cell in cells))
            if len(names) > 1 and title.endswith("ms") and title != "loop_ms":
                lines[-1] += _ratio(cells[0], cells[-1])
    return "\n".join(lines)


def _ratio(first: object, last: object) -> str:
    if isinstance(first, float | int) and isinstance(last, float | int) and first:
        return f"   x {last / first:.2f}"
    return ""


def _checkout(text: str) -> tuple[str, Path]:
    name, _, path = text.rpartition("=")
    folder = Path(path).resolve()
    if not (folder / "app" / "cli.py").is_file():
        raise argparse.ArgumentTypeError(f"{path} is not a checkout of rankscope")
    return name or folder.name, folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add(
        "--checkout",
        type=_checkout,
        action="append",
        metavar="[NAME=]PATH",
        help="code to measure, the older one first (this checkout)",
    )
    add("--only", choices=SECTIONS, action="append", help="a section, several allowed (all)")
    add("--hostile", type=int, default=100, help="in a row; 0: visitors alone (%(default)s)")
    add("--patience", type=float, default=5.0, help="s until the client leaves (%(default)s)")
    add("--seconds", type=float, default=600.0, help="s they may take together (%(default)s)")
    add("--most-gb", type=float, default=8.0, help="memory of a server (%(default)s)")
    add("--half-open", type=int, default=200, help="connections held open (%(default)s)")
    add("--descriptors", type=int, default=160, help="RLIMIT_NOFILE of the server (%(default)s)")
    add("--rounds", type=int, default=20, help="of each ordinary SELECT (%(default)s)")
    add("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    options.checkout = dict(options.checkout or [("this checkout", REPO)])
    options.only = options.only or SECTIONS
    begun_s = time.monotonic()
    tables = measured(options)
    setting = conditions(
        most_gb=options.most_gb,
        descriptors=options.descriptors,
        runs=f"{RECORDED.name}, generated {' '.join(SIZE)}",
        took_s=round(time.monotonic() - begun_s),
    )
    del setting["browser"], setting["webgl"]
    text = as_text(setting, tables)
    print(json.dumps({"conditions": setting, **tables}, indent=1) if options.json else text)


if __name__ == "__main__":
    main()
