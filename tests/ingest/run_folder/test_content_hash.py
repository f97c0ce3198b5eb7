"""What went through a model is seen by SQL only on request."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cli import main
from ingest.errors import UserError
from ingest.query.saved_queries import saved_queries
from ingest.run import Run, open_run
from tests.frame_runs import frame_row
from tests.runs_builder import RunBuilder, two_rank_run
from trace_hooks.schema import CONTENT_TABLES

FRAME = {**frame_row(b"\x01\x02"), "labels": '["a secret", "of somebody"]'}


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> RunBuilder:
    made = two_rank_run(tmp_path_factory.mktemp("content") / "job")
    made.add("frames", 0, 1, **FRAME)
    made.publish()
    return made


@pytest.fixture(scope="module")
def run(builder: RunBuilder) -> Iterator[Run]:
    with open_run(builder.folder) as opened:
        yield opened


def test_sql_does_not_see_content(run: Run) -> None:
    with pytest.raises(UserError, match="frames holds content of the model"):
        run.sql("SELECT data FROM frames")
    with (
        pytest.raises(UserError, match="holds content of the model"),
        run.sql_reading("FROM Frames"),
    ):
        pass


def test_sql_sees_it_on_request(run: Run) -> None:
    table = run.sql("SELECT data, what FROM frames", with_content=True)
    assert table.to_pylist() == [{"data": b"\x01\x02", "what": "mlp"}]


@pytest.mark.parametrize("function", ["read_parquet({})", "rows_of([{}])", "read_blob({})", "{}"])
def test_sql_of_strangers_does_not_open_its_files(run: Run, function: str) -> None:
    (path,) = (run.folder / "segments").glob("frames-*.parquet")
    for name in (str(path), str(path.parent / "*.parquet"), str(path.parent / "." / path.name)):
        text = f"SELECT * FROM {function.format(repr(name))}"
        with pytest.raises(UserError), run.sql_reading(text) as rows:
            rows.read_all()
    with run.sql_reading("SELECT count(*) AS n FROM spans") as rows:
        assert rows.read_all().column("n")[0].as_py() > 0


def test_no_saved_query_reads_content() -> None:
    content = set(CONTENT_TABLES)
    assert not [one.name for one in saved_queries().values() if content & set(one.reads)]


def test_on_this_machine_an_option_requests_it(
    builder: RunBuilder, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["query", str(builder.folder), "SELECT what FROM frames", "--json"]
    assert main(command) == 2
    assert "--content" in capsys.readouterr().err
    assert main([*command, "--content"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"what": "mlp"}]


@pytest.mark.parametrize("what", [[], ["--format", "perfetto"], ["--format", "csv"]])
def test_exports_have_no_content(builder: RunBuilder, tmp_path: Path, what: list[str]) -> None:
    out = tmp_path / "out"
    assert main(["export", str(builder.folder), *what, "--out", str(out)]) == 0
    assert b"secret" not in out.read_bytes()
    assert out.stat().st_size > 500


def test_a_table_of_content_is_exported_where_it_is_named(
    builder: RunBuilder, tmp_path: Path
) -> None:
    out = tmp_path / "out.csv"
    command = ["export", str(builder.folder), "--format", "csv", "--table", "frames"]
    assert main([*command, "--out", str(out)]) == 0
    assert "a secret" in out.read_text()


@pytest.mark.parametrize("verb", ["diagnose", "info"])
def test_reports_have_no_content(
    builder: RunBuilder, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    assert main([verb, str(builder.folder), "--json"]) in (0, 4)  # 4: too few steps to judge
    output = capsys.readouterr().out
    assert json.loads(output)
    assert "secret" not in output
