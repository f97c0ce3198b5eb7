"""Names in a statement mean what the walk over its tree takes them for: with that layer alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile.free_sql.sql_target import Target
from tests.runs_builder import RunBuilder

SECRET = "canary-4711"
ELSEWHERE = {
    "a histogram of a file": "from histogram('@SECRET@', a)",
    "values of a file": "from histogram_values('@SECRET@', a)",
    "values of a file by name": "from histogram_values(source := '@SECRET@', col_name := a)",
    "values of settings": "from histogram_values('pg_settings', name || setting)",
    "values of settings as a column": "from histogram_values(pg_settings, setting)",
    "values of settings with a schema": "from histogram_values('pg_catalog.pg_settings', setting)",
    "values of settings under a CTE's name": 'with "pg_catalog.pg_settings" as (select 1 as setting) '
    "from histogram_values('pg_catalog.pg_settings', setting)",
    "values of views": "from histogram_values('duckdb_views', sql)",
    "a table made up of texts": "from histogram_values('pg_' || 'settings', setting)",
    "a CTE whose name differs by case beyond ASCII": 'with "@FOLDER@/ss.csv" as (select 1) from "@FOLDER@/\u00df.csv"',
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("names")
    for name in ("secret.csv", "\u00df.csv"):
        (folder / name).write_text(f"a,b\n{SECRET},2\n", "utf-8")
    return folder


@pytest.fixture(scope="module")
def only_tree(folder: Path) -> Iterator[Target]:
    built = RunBuilder(folder / "run")
    built.rank_files()
    target = Target(built.folder, frozenset({"tree"}))
    yield target
    target.close()


@pytest.mark.parametrize("attack", ELSEWHERE)
def test_a_name_reaches_nothing_but_tables_of_the_run(
    only_tree: Target, folder: Path, attack: str
) -> None:
    text = ELSEWHERE[attack].replace("@SECRET@", f"{folder}/secret.csv")
    outcome = only_tree.execute(text.replace("@FOLDER@", str(folder)))
    assert outcome.kind == "refused", outcome.table
    assert SECRET not in outcome.message


@pytest.mark.parametrize(
    "text",
    [
        "from histogram_values(ranks, rank)",
        "from histogram('RANKS', rank, bin_count := 3)",
        "with x as (select 1 as a) from histogram_values(x, a)",
        "with X as (select 1) from x",
    ],
)
def test_tables_of_the_run_are_found_by_any_spelling(only_tree: Target, text: str) -> None:
    outcome = only_tree.execute(text)
    assert outcome.kind == "rows", outcome.message
