"""Cost of capturing attention for the training of `rankscope demo`, and the cost shown on the page.

    python benchmarks/demo_watch_cost.py [--rounds 10] [--block-s 6] [--size 64] [--json]

8 ranks (TP 2 x PP 2 x DP 2), all heads of all their layers captured in every step, as from the tab
Model. Blocks of steps take turns: alone, null, alone, watched, ..., where null is the same as
alone. The benchmark reads the CPU time of a rank's training thread, and of all its threads, ten
times a second; the run records when a step began. The mean step of a block is compared with those
of the blocks before and after: `more` is the difference, its median over the rounds with quartiles.
The measurement cannot distinguish values within the null's quartiles. Ranks of the second replica
(2, 3, 6 and 7) capture nothing: their extra cost is due to the server, which runs on the same
machine and shares its caches. `shown` is the cost that the rank reports to the page. A rank is
covered if its training thread pays no more than the shown cost and the upper quartile of its null.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx
import numpy as np
from browser import RANKSCOPE, REPO, Demo, calling, conditions

SAMPLE_S = 0.1
SETTLE_S = 2.0
"""After a watch has begun or ended its steps do not count: ranks take it with their next step, and
the drain thread still has to write.
"""
CONNECT_S = 60.0
STEPS_SQL = "SELECT rank, start_ns FROM step_rows ORDER BY ALL"


TURNS = ALONE, NULL, _, WATCHED = "alone", "null", "alone", "watched"


class Block(NamedTuple):
    """Steps that began between two moments, Unix ns."""

    turn: str
    begin_ns: int
    end_ns: int


class Clocks:
    """CPU time of ranks over time, by their processes."""

    def __init__(self, pids: Mapping[int, int]) -> None:
        """`pids` by rank."""
        self._pids = pids
        self.at_ns: list[int] = []
        self.thread_ns: dict[int, list[int]] = {rank: [] for rank in pids}
        self.whole_ns: dict[int, list[int]] = {rank: [] for rank in pids}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Read them until the block ends."""
        with calling(self._read, SAMPLE_S):
            yield

    def _read(self) -> None:
        self.at_ns.append(time.time_ns())
        for rank, pid in self._pids.items():
            self.thread_ns[rank].append(_on_cpu_ns(Path(f"/proc/{pid}/task/{pid}")))
            tasks = Path(f"/proc/{pid}/task").iterdir()
            self.whole_ns[rank].append(sum(map(_on_cpu_ns, tasks)))


def _on_cpu_ns(task: Path) -> int:
    with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended since
        return int((task / "schedstat").read_text(encoding="utf-8").split()[0])
    return 0


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """Run the demo, watch it in turns and compare."""
    with tempfile.TemporaryDirectory() as scratch:
        demo = Demo(Path(scratch))
        try:
            blocks, clocks, shown = _taken_turns(demo, Path(scratch), options)
        finally:
            demo.stop()
        (folder,) = (Path(scratch) / "runs").iterdir()
        starts = _step_starts(folder)
    return {
        "conditions": conditions(
            job=f"rankscope demo, all heads of all layers as tiles of {options.size}, every step",
            rounds=options.rounds,
            block_s=options.block_s,
        ),
        "training thread": compared(blocks, clocks.at_ns, clocks.thread_ns, starts, shown),
        "whole rank": compared(blocks, clocks.at_ns, clocks.whole_ns, starts, shown),
    }


def _taken_turns(
    demo: Demo, folder: Path, options: argparse.Namespace
) -> tuple[list[Block], Clocks, dict[int, float]]:
    """Blocks, CPU time during them, and the ms of a captured step that each rank reported."""
    url = urlsplit(demo.url())
    name = url.path.rsplit("/", 1)[1]
    pids = {
        rank["rank"]: rank["pid"]
        for rank in map(_json_of, (folder / "runs" / name / "ranks").glob("*.json"))
    }
    clocks, blocks = Clocks(pids), []
    shown: dict[int, list[float]] = {}
    with (
        httpx.Client(base_url=f"{url.scheme}://{url.netloc}", params={"run": name}) as client,
        clocks.running(),
    ):
        _wait_for_ranks(client, len(pids))
        for turn in [*TURNS * options.rounds, ALONE]:
            if turn == WATCHED:
                wanted = {"id": "cost", "what": "attention", "size": options.size}
                _post(client, {"watches": [wanted]})
            time.sleep(SETTLE_S)
            begin_ns = time.time_ns()
            time.sleep(options.block_s)
            blocks.append(Block(turn, begin_ns, time.time_ns()))
            if turn == WATCHED:
                for rank in _ranks(client):
                    shown.setdefault(rank["rank"], []).append(_reported_ms(rank))
                _post(client, {"end": ["cost"]})
    return blocks, clocks, {rank: statistics.median(times_ms) for rank, times_ms in shown.items()}


def _json_of(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _ranks(client: httpx.Client) -> list[dict[str, Any]]:
    answer = client.get("/api/watch").raise_for_status()
    return list(answer.json()["ranks"])


def _wait_for_ranks(client: httpx.Client, number: int) -> None:
    deadline = time.monotonic() + CONNECT_S
    while sum(rank["state"] == "connected" for rank in _ranks(client)) < number:
        if time.monotonic() > deadline:
            raise SystemExit("the ranks did not connect; see the server's output")
        time.sleep(0.2)


def _post(client: httpx.Client, body: dict[str, Any]) -> None:
    origin = {"Origin": str(client.base_url).rstrip("/")}
    answer = client.post("/api/watch", json=body, headers=origin).raise_for_status().json()
    refused = [ack for ack in answer["acks"] if not ack["ok"]]
    if refused:
        raise SystemExit(f"a rank refused: {refused[0]['text']}")


def _reported_ms(rank: Mapping[str, Any]) -> float:
    return max((watch["cost_ms_per_step"] for watch in rank["watches"]), default=0.0)


def _step_starts(run: Path) -> dict[int, np.ndarray]:
    """Unix ns at which each rank began its steps, in order."""
    command = [*RANKSCOPE, "query", str(run), STEPS_SQL, "--json"]
    query = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=True)
    starts: dict[int, list[int]] = {}
    for row in json.loads(query.stdout):
        starts.setdefault(row["rank"], []).append(int(row["start_ns"]))
    return {rank: np.array(begun_ns) for rank, begun_ns in starts.items()}


def compared(
    blocks: Sequence[Block],
    at_ns: Sequence[int],
    used_ns: Mapping[int, Sequence[int]],
    starts: Mapping[int, np.ndarray],
    shown: Mapping[int, float],
) -> dict[int, dict[str, Any]]:
    """By rank, CPU ms of a step."""
    by_rank = {}
    for rank, used in sorted(used_ns.items()):
        steps_ms = [_step_ms(block, at_ns, used, starts[rank]) for block in blocks]
        more: dict[str, list[float]] = {NULL: [], WATCHED: []}
        for block, before, one, after in zip(
            blocks[1::2], steps_ms[:-1:2], steps_ms[1::2], steps_ms[2::2], strict=True
        ):
            more[block.turn].append(one - (before + after) / 2)
        null, watched = (statistics.quantiles(more[turn], n=4) for turn in (NULL, WATCHED))
        by_rank[rank] = {
            "alone_ms": statistics.median(steps_ms[::2]),
            "null_ms": null,
            "more_ms": watched,
            "shown_ms": shown[rank],
            "covered": watched[1] - shown[rank] <= null[2],
        }
    return by_rank


def _step_ms(
    block: Block, at_ns: Sequence[int], used_ns: Sequence[int], starts: np.ndarray
) -> float:
    """Mean CPU ms of the block's steps."""
    within = starts[(starts >= block.begin_ns) & (starts < block.end_ns)]
    if len(within) < 2:
        raise SystemExit("a block has less than two steps; give longer ones with --block-s")
    first, last = np.interp(within[[0, -1]], at_ns, used_ns)
    return float(last - first) / (len(within) - 1) / 1e6


def _quartiles(low_middle_high: Sequence[float]) -> str:
    low, middle, high = low_middle_high
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10, help="blocks that are watched")
    parser.add_argument("--block-s", type=float, default=6.0, help="how long a block is")
    parser.add_argument("--size", type=int, default=64, help="pixels of a tile")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    result = measured(options)
    if options.json:
        print(json.dumps(result, indent=1))
        return 0
    print(", ".join(f"{key} {value}" for key, value in result["conditions"].items()))
    for name in ("training thread", "whole rank"):
        print(f"\n{name:16}{'alone ms':>10}{'null ms':>26}{'more ms':>26}{'shown ms':>10}  covered")
        for rank, one in result[name].items():
            null, more = map(_quartiles, (one["null_ms"], one["more_ms"]))
            covered = "yes" if one["covered"] else "no"
            print(
                f"rank {rank:<11}{one['alone_ms']:10.1f}{null:>26}{more:>26}"
                f"{one['shown_ms']:10.2f}  {covered}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
