"""Clock offsets: what passes take in one after the other is what one pass takes in."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from ingest.index.indexer import Indexer
from tests.runs_builder import T0, RunBuilder

Row = tuple[object, ...]


def offsets(indexer: Indexer) -> list[Row]:
    """(rank, valid from in s after the begin, offset, method, is assumed) of each estimate."""
    indexer.refresh()
    found = indexer.database.connection.sql(
        "SELECT rank, valid_from_ns, offset_ns, err_ns, method, is_assumed FROM clock_offsets"
        " ORDER BY ALL"
    )
    return found.fetchall()


def clock(builder: RunBuilder, rank: int, at_s: int, offset_ns: int, **values: object) -> None:
    builder.add("clocks", rank, 0, ts_ns=T0 + at_s * 10**9, offset_ns=offset_ns, **values)


def two_hosts(folder: Path) -> RunBuilder:
    builder = RunBuilder(folder, 3, hosts=["a", "b", "b"])
    builder.rank_files()
    builder.step(0, 0, 0, 100)
    builder.publish()
    return builder


FIRST = -9_000_000_000_000_000_000


def test_an_estimate_before_those_that_are_known_becomes_the_first(tmp_path: Path) -> None:
    builder = two_hosts(tmp_path / "run")
    with Indexer(builder.folder) as indexer:
        assert offsets(indexer) == []  # which is ahead of which is not known
        clock(builder, 1, 60, 5_000, err_ns=10, method="ping")
        builder.publish()
        reference = (0, FIRST, 0, 0, "reference", True)
        assert offsets(indexer) == [reference, (1, FIRST, 5_000, 10, "ping", False)]
        clock(builder, 1, 30, 4_000, err_ns=10, method="ping")
        clock(builder, 2, 30, 0, err_ns=10, method="none")
        builder.publish()
        assert offsets(indexer) == [
            reference,
            (1, FIRST, 4_000, 10, "ping", False),
            (1, T0 + 60 * 10**9, 5_000, 10, "ping", False),
        ]


def test_a_rank_whose_clock_is_recorded_as_unknown_is_assumed_to_have_none(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run", 3, hosts=["a"] * 3)
    builder.rank_files()
    with Indexer(builder.folder) as indexer:
        assert [row[0] for row in offsets(indexer)] == [0, 1, 2]
        clock(builder, 1, 0, 0, method="none")
        builder.publish()
        assert [row[0] for row in offsets(indexer)] == [0, 2]


@pytest.mark.parametrize("seed", range(3))
def test_passes_one_after_the_other_give_what_one_pass_gives(tmp_path: Path, seed: int) -> None:
    draw, builder = random.Random(seed), two_hosts(tmp_path / "run")
    with Indexer(builder.folder) as indexer:
        for _ in range(4):
            for _ in range(draw.randrange(4)):
                method = draw.choice(("ping", "ping", "none", "same_host"))
                at_s, error_ns = draw.randrange(4), draw.randrange(1, 10**6)
                clock(builder, draw.randrange(3), at_s, error_ns, err_ns=error_ns, method=method)
            builder.publish()
            found = offsets(indexer)
    shutil.rmtree(builder.folder / "index")
    with Indexer(builder.folder) as indexer:
        assert offsets(indexer) == found
