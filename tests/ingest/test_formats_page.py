"""docs/formats.md names every reader and every limit, with its default; a test walks the facts."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest

from ingest.limits import Limits, variable
from ingest.readers import FORMATS, format_facts
from ingest.run import open_run
from ingest.summary import info
from tests.folders import NO_TRACES, REPO, TRACES
from tests.reader_results import Imported

PAGE = REPO / "docs" / "formats.md"


def test_every_reader_has_a_section_and_a_line() -> None:
    text = PAGE.read_text()
    assert [name for name in FORMATS if f"\n## {name}\n" not in text] == []
    assert [name for name in FORMATS if f"\n| `{name}` |" not in text] == []
    assert [name for name in FORMATS if format_facts(name).name != name] == []


def test_every_limit_is_listed_with_its_default() -> None:
    defaults = dict(re.findall(r"\| `(RANKSCOPE_[A-Z_]+)` \| (\d+) \|", PAGE.read_text()))
    assert defaults == {variable(f.name): str(f.default) for f in fields(Limits)}


FACTS = TRACES / "facts.json"


def _events() -> dict[str, int]:
    """Files that have a list of events -> their number, counted independently."""
    if not FACTS.is_file():
        return {}
    found = {name: about["facts"] for name, about in json.loads(FACTS.read_text()).items()}
    return {name: sum(fact["n"] for fact in facts) for name, facts in found.items() if facts}


EVENTS = _events()


@pytest.mark.skipif(not EVENTS, reason=NO_TRACES)
@pytest.mark.parametrize("name", [n for n in EVENTS if not n.startswith("kineto/")] or ["none"])
def test_events_of_other_formats_are_all_counted(name: str, tmp_path: Path) -> None:
    run = Imported(TRACES / name, into=tmp_path / "runs")
    assert sum(run.info["events_per_rank"].values()) == EVENTS[name]


@pytest.mark.sampled
@pytest.mark.skipif(not FACTS.is_file(), reason=NO_TRACES)
@pytest.mark.parametrize(
    ("name", "source", "num_ranks", "num_steps"),
    [
        ("flight_recorder/gpu_error_1st", "flight_recorder", 16, 0),
        ("fault_injection/p2-sw-c-loud/injected", "phase_log", 16, 500),
        ("megascan/pp4", "megascan", 4, 20),
        ("straggler_analysis/trace-ST.parquet", "straggler_analysis", 8, 32),
        ("nsys/mfu_2gpu_before.sqlite", "nsys", 2, 0),
        ("rocpd/matmul_result_large.rpd", "rocpd", 1, 0),
        ("chrome/byteps_truncated.json", "chrome_trace", 1, 0),
    ],
)
def test_every_kind_of_file_opens_as_a_run(
    name: str, source: str, num_ranks: int, num_steps: int, tmp_path: Path
) -> None:
    """What `rankscope info --json` prints about it, through the index."""
    imported = Imported(TRACES / name, into=tmp_path / "runs")
    with open_run(imported.folder) as run:
        summary = info(run)
        counted = run.sql(
            "SELECT (SELECT count(*) FROM spans) AS n, count(*) AS m FROM collectives"
        )
    assert (summary["format"], summary["num_ranks"]) == (source, num_ranks)
    assert len(summary["steps"]) == num_steps
    (row,) = counted.to_pylist()
    assert summary["num_spans"] == row["n"]
    assert row["n"] + row["m"] > 0
