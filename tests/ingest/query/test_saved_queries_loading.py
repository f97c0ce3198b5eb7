"""Workers of data loaders, their memory, and the mixture of sources: rows in, tables out."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from diagnosis.detectors import loader_memory, source_mix
from diagnosis.loading.redundant import sentences
from ingest.run import open_run
from tests.runs_builder import T0, RunBuilder
from trace_hooks.layout import ParallelLayout

MS, MB, S = 1_000_000, 1_000_000, 1_000_000_000


@pytest.fixture
def run(tmp_path: Path) -> RunBuilder:
    built = RunBuilder(tmp_path / "run", 2)
    built.rank_files()
    return built


def asked(run: RunBuilder, question: str, **params: Any) -> Any:
    run.publish()
    with open_run(run.folder) as opened:
        return opened.ask(question, **params)


def test_what_workers_did_by_source(run: RunBuilder) -> None:
    own = {"loader": 0, "worker": 1, "pid": 7, "transform": "", "transform_ns": 0}
    for number, (wall_ms, samples, read) in enumerate([(8, 4, 4 * MB), (40, 4, -1), (8, 4, 0)]):
        times = {"wall_ns": wall_ms * MS, "cpu_ns": wall_ms * MS // 4, "ts_ns": T0 + number}
        more = {"source": "web", "samples": samples, "read_bytes": read, "fetch": number}
        run.add("loader_fetches", 1, number, **own, **times, **more)
    sped = own | {"transform": "tokenize", "transform_ns": 6 * MS, "source": "code"}
    run.add("loader_fetches", 1, 9, **sped, samples=2, fetch=9, wall_ns=8 * MS, cpu_ns=8 * MS,
            read_bytes=-1, ts_ns=T0)  # fmt: skip
    code, web = asked(run, "loader_work").to_pylist()
    assert (web["rank"], web["worker"], web["source"]) == (1, 1, "web")
    assert (web["fetches"], web["samples"], web["sample_ms"]) == (3, 12, 2.0)
    assert web["cpu_ratio"] == pytest.approx(0.25)
    assert web["read_mb"] == pytest.approx(0.5)  # of the eight samples whose bytes are known
    assert (code["transform"], code["transform_ratio"], code["read_mb"]) == ("tokenize", 0.75, None)
    only = asked(run, "loader_work", rank=1, step_max=5).to_pylist()
    assert [row["source"] for row in only] == ["web"]
    assert asked(run, "loader_work", rank=0).num_rows == 0


def test_the_mixture_and_its_error(run: RunBuilder) -> None:
    chance = random.Random(1)
    for step in range(100):
        for rank in range(2):
            drawn = [chance.random() < 0.7 for _ in range(8)]
            for source, samples, planned in (
                ("web", sum(drawn), 0.7),
                ("code", 8 - sum(drawn), 0.3),
                ("books", 0, None if step < 50 else 0.2),
            ):
                run.add("batch_sources", rank, step, ts_ns=T0 + step, source=source,
                        samples=samples, planned=planned)  # fmt: skip
    table = asked(run, "source_mix")
    books, code, web = table.to_pylist()
    assert (books["ratio"], books["planned"], books["spread"]) == (0.0, 0.2, 0.0)
    assert web["ratio"] + code["ratio"] == pytest.approx(1.0)
    assert web["spread"] == pytest.approx((0.7 * 0.3 / 1_600) ** 0.5, rel=0.3)
    assert (web["all_samples"], web["batches"], web["first_step"]) == (1_600, 200, 0)
    assert web["last_step"] == 99
    verdict = source_mix.detect({"source_mix": table}, 0)
    assert verdict is not None
    assert [finding.title for finding in verdict.findings] == ["Source books comes too seldom"]


def test_batches_of_one_source_each_have_a_larger_error(run: RunBuilder) -> None:
    for step in range(100):
        for source in ("web", "code"):
            samples = 8 if (step % 2 == 0) == (source == "web") else 0
            run.add("batch_sources", 0, step, ts_ns=T0 + step, source=source, samples=samples,
                    planned=0.5)  # fmt: skip
    spreads = asked(run, "source_mix").column("spread").to_pylist()
    assert spreads == pytest.approx([0.05, 0.05])  # half a batch off in each of 100


@pytest.mark.parametrize(
    ("same_on", "factors", "words"),
    [
        ("tp", {"tp": 2.0, "dp": 1.0, "job": 2.0}, "2 ranks of each tensor-parallel group read"),
        ("dp", {"tp": 1.0, "dp": 2.0, "job": 2.0}, "2 data-parallel replicas read the same"),
        ("none", {"tp": 1.0, "dp": 1.0, "job": 1.0}, None),
    ],
)
def test_batches_that_several_ranks_read(
    tmp_path: Path, same_on: str, factors: dict[str, float], words: str | None
) -> None:
    layout = ParallelLayout((("pp", 1), ("dp", 2), ("tp", 2)))
    run = RunBuilder(tmp_path / "run", 4, layout)
    run.rank_files()
    for rank in range(4):
        tp, dp = rank % 2, rank // 2
        for step in range(30):
            kept = {"tp": (dp,), "dp": (tp,), "none": (tp, dp)}[same_on]
            own = {"loader": 0, "worker": 0, "pid": 7, "source": "web", "samples": 8}
            took = {"wall_ns": MS, "cpu_ns": MS, "transform": "", "transform_ns": 0}
            run.add("data_batches", rank, step, ts_ns=T0, source="web", exposed_ns=MS, fetch_ns=-1,
                    ids_hash=hash((step, *kept)))  # fmt: skip
            run.add("loader_fetches", rank, step, **own, **took, ts_ns=T0, fetch=step,
                    read_bytes=MB)  # fmt: skip
    rows = asked(run, "redundant_reads").to_pylist()
    assert {row["axis"]: row["factor"] for row in rows} == factors
    assert [row["size"] for row in rows] == [2, 2, 4]
    assert all(row["batches"] == 80 and row["read_mb"] == 120 for row in rows)
    assert all(row["unique_mb"] == 120 / row["factor"] for row in rows)
    found = sentences(rows)
    assert len(found) == (words is not None)
    if words is not None:
        assert found[0].startswith(words)


def test_without_ids_nothing_is_said_of_reads(run: RunBuilder) -> None:
    run.add("data_batches", 0, 1, ts_ns=T0, source="web", exposed_ns=MS, fetch_ns=-1)
    assert asked(run, "redundant_reads").num_rows == 0


def test_ids_that_come_back_in_each_step_say_nothing_of_reads(run: RunBuilder) -> None:
    for rank in range(2):
        for step in range(3):
            run.add("data_batches", rank, step, ts_ns=T0, source="web", ids_hash=5)
    assert asked(run, "redundant_reads").num_rows == 0


def test_memory_in_three_parts_of_the_time(run: RunBuilder) -> None:
    for look in range(9):
        own = {"loader": 0, "worker": 0, "pid": 7, "ts_ns": T0 + 20 * look * S}
        pss = (100 + 20 * look) * MB if look % 2 == 0 else -1
        run.add("loader_memory", 1, look, **own, pss_bytes=pss, rss_bytes=300 * MB)
    run.add("host_metrics", 1, 0, ts_ns=T0, host="h0", metric="memory_available_bytes",
            value=5e9, device="host", state="value", scope="host")  # fmt: skip
    table = asked(run, "loader_memory")
    resident, shared = table.to_pylist()
    assert (resident["is_shared"], resident["samples"], resident["end_mb"]) == (False, 9, 300)
    assert (shared["is_shared"], shared["samples"], shared["seconds"]) == (True, 5, 160)
    assert (shared["begin_mb"], shared["middle_mb"], shared["end_mb"]) == (120, 180, 240)
    assert (shared["first_step"], shared["last_step"]) == (0, 8)
    assert shared["host"] == "h0"
    assert shared["free_mb"] == 5_000
    verdict = loader_memory.detect({"loader_memory": table}, 0)
    assert verdict is not None
    assert verdict.findings == ()  # five looks at its share are too few
    assert verdict.checked == "None of 1 workers of data loaders grows."
