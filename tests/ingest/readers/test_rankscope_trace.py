"""Traces that rankscope exported, read again: recognised, damaged, of newer versions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ingest.errors import UserError
from ingest.exports.window import Window
from ingest.imports.importer import import_paths, open_any
from ingest.readers import reader_of
from ingest.readers.parsing.sources import sources
from ingest.run import open_run
from tests.ingest.exports.test_perfetto import exported, spans
from tests.reader_results import Imported
from tests.runs_builder import two_rank_run
from trace_hooks.schema import SCHEMA_VERSION


def test_a_trace_of_a_newer_rankscope_is_refused(tmp_path: Path) -> None:
    two_rank_run(tmp_path / "run")
    exported(tmp_path / "run", tmp_path / "out.json", Window())
    text, ours = (tmp_path / "out.json").read_text(), f'"schema":"{SCHEMA_VERSION}"'
    assert text.count(ours) == 1
    (tmp_path / "new.json").write_text(text.replace(ours, '"schema":"2.0"', 1))
    with pytest.raises(UserError, match="upgrade rankscope"):
        import_paths([tmp_path / "new.json"], tmp_path / "runs")


def test_it_is_known_by_its_content_only(tmp_path: Path) -> None:
    two_rank_run(tmp_path / "run")
    exported(tmp_path / "run", tmp_path / "trace.bin", Window())
    (source,) = sources([tmp_path / "trace.bin"], lambda _: None)
    reader = reader_of(source)
    assert reader is not None
    assert reader.FORMAT.name == "rankscope_trace"


def test_damage_costs_what_it_hits(tmp_path: Path) -> None:
    """A rank beyond all limits, an unknown kind, numbers that do not fit, a cut end."""
    two_rank_run(tmp_path / "run", num_steps=1)
    exported(tmp_path / "run", tmp_path / "out.json", Window())
    lines = (tmp_path / "out.json").read_text().split("\n")
    good = next(line for line in lines if '"optimizer"' in line)
    bad = [
        good.replace('"pid":0', '"pid":2000000000'),
        good.replace('"optimizer"', '"nonsense"'),
        good.replace('"step":0', '"step":1e400'),
        good.replace('"step":0', f'"step":{2**70}'),
        good.replace('"step":0', '"step":0,"depth":40000'),
        good.replace('"ts":', '"ts":-1e30,"x":'),
    ]
    at = lines.index(good)
    damaged = [*lines[:at], *bad, *lines[at:-2]]
    (tmp_path / "bad.json").write_text("\n".join(damaged)[:-20])
    imported = Imported(tmp_path / "bad.json", into=tmp_path / "runs")
    assert set(imported.ranks) == {0, 1}
    assert 0 < imported.table("spans").num_rows < 10
    problems = " ".join(imported.problems)
    assert "cut off" in problems
    assert "damaged events left out" in problems
    assert "3 events of no known kind" in problems


def test_a_second_file_of_a_rank_is_left_out_and_reported(tmp_path: Path) -> None:
    two_rank_run(tmp_path / "run")
    exported(tmp_path / "run", tmp_path / "a.json", Window(ranks=(0,)))
    exported(tmp_path / "run", tmp_path / "b.json", Window())
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    imported = Imported(*files, into=tmp_path / "runs")
    assert set(imported.ranks) == {0, 1}
    assert len(imported.problems) == 1
    assert "shows rank 0, as" in imported.problems[0]
    with open_any(imported.folder) as back, open_run(tmp_path / "run") as run:
        assert spans(back) == spans(run)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (b'"axes":{"tp":922337203685477580}', "tp 922337203685477580 has more than 1048576 ranks"),
        (b'"axes":{"tp":0}', "cannot be used"),
    ],
)
def test_a_head_that_claims_too_much_is_refused(
    tmp_path: Path, change: bytes, message: str
) -> None:
    out = tmp_path / "out.json"
    exported(two_rank_run(tmp_path / "run").folder, out, Window())
    head, axes, rest = re.split(rb'("axes":\{[^}]*\})', out.read_bytes(), maxsplit=1)
    assert axes
    out.write_bytes(head + change + rest)
    with pytest.raises(UserError, match=message):
        import_paths([out], tmp_path / "runs")


def test_a_head_without_any_event_is_a_sentence(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    exported(two_rank_run(tmp_path / "run").folder, out, Window())
    head, _, _ = out.read_bytes().partition(b'"traceEvents":[')
    out.write_bytes(head + b'"traceEvents":[]}')
    with pytest.raises(UserError, match="no event could be read"):
        import_paths([out], tmp_path / "runs")
