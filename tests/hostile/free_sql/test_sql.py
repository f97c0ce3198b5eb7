"""A short campaign of tests.hostile.sql against free SQL, and proof that it would notice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from tests.hostile.free_sql.sql_target import LAYERS
from tests.hostile.sql.campaign import Campaign, unanswered
from tests.hostile.sql.catalog import catalog
from tests.hostile.sql.site import Site
from tests.hostile.sql.sql_file import Listed, listed
from tests.hostile.sql.statements import WEIGHTS, Statements

NUM_STATEMENTS = 300
SEED = 17
NOT_PARSED = {
    "INVALID",
    "RELATION",
    "LOGICAL_PLAN",
    "EXTENSION",
    "ANALYZE",  # the parser makes VACUUM of it
    "CREATE_FUNC",
    "VARIABLE_SET",  # of older versions
}
"""Types of statements that no text has."""


@pytest.mark.long
def test_statements_that_a_grammar_makes_change_nothing_and_leak_nothing(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path, SEED, frozenset(LAYERS))
    report = campaign.run(NUM_STATEMENTS, num_workers=2)
    assert report.refused == {}
    assert report.summary == (
        f"{NUM_STATEMENTS} statements: 0 writes, 0 reads outside, 0 limits passed, "
        "0 honest statements refused"
    ), "\n".join(report.shown)


@pytest.mark.long
def test_a_campaign_shows_what_gets_through_where_no_layer_is_on(tmp_path: Path) -> None:
    shown: list[str] = []
    campaign = Campaign(tmp_path, SEED, frozenset(), with_limits=False, most=1, show=shown.append)
    report = campaign.run(NUM_STATEMENTS, num_workers=1, every=1e9)
    assert report.shown == shown != []
    assert shown[0].startswith(("READ ", "WRITE ")), shown


PLANTS = {
    "a file": ("write", "copy (select 1 as a) to '@OUT@/new.csv'"),
    "a file of the run": ("write", "copy (select 1 as a) to '@DATA@' (use_tmp_file false)"),
    "the same content": ("write", "copy (select 'x'::blob) to '@HOME@/x' (format blob)"),
    "a file elsewhere": ("write", "copy (select 1 as a) to '/tmp/@TOKEN@'"),
    "what it prints": ("write", "copy (select 1 as a) to '/dev/stdout' (use_tmp_file false)"),
    "a table": ("write", "with x as (delete from device_peaks returning *) from x"),
    "a view": ("write", "create or replace view marks as select 1"),
    "a macro": ("write", "create macro m() as 1"),
    "a setting": ("write", "set default_null_order = 'nulls_first'"),
    "a file outside": ("read", "select content from read_text('@SECRET@')"),
    "in hexadecimal": ("read", "select hex(content) from read_text('@SECRET@')"),
    "in lists": ("read", "select [{'a': content}] from read_text('@SECRET@')"),
    "in a name of a column": ("read", "from read_csv('@OUT@/opened.txt', header := true)"),
    "in an error": ("read", "select content::int from read_text('@SECRET@')"),
    "opened and not shown": ("read", "select sum(length(content)) from read_text('@SECRET@')"),
    "another run": ("read", "select count(*) from '@OTHERDATA@'"),
    "a folder": ("read", "select count(*) from glob('@OUT@/*')"),
    "the environment": ("read", "select content from read_text('/proc/self/environ')"),
    "users": ("read", "from read_csv('/etc/passwd', header := false)"),
    "a path": ("read", "select sql from duckdb_views() where view_name = 'marks'"),
    "settings": ("read", "select name from duckdb_settings()"),
    "time": ("limit", "select count(*) from range(10000000) a, range(10000000) b"),
    "memory": ("limit", "select list_sum(range(400000000))"),
}


@pytest.fixture(scope="module")
def open_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("open") / "0", "rankscope-canary-planted", frozenset())
    yield site
    site.close()


@pytest.mark.sampled(every=6)
@pytest.mark.parametrize("plant", PLANTS)
def test_what_is_planted_is_noticed(open_site: Site, plant: str) -> None:
    kind, text = PLANTS[plant]
    _, found = open_site.run(text)
    found += open_site.changed_state()
    open_site.restore()
    assert kind in {violation.kind for violation in found}
    _, later = open_site.run("from device_peaks")
    assert later + open_site.changed_state() == []


def test_a_process_that_arrow_aborts_writes_nothing(tmp_path: Path) -> None:
    """A null of a union within a null struct fails a check of pyarrow, which prints why."""
    site = Site(tmp_path / "0", "rankscope-canary-aborted", frozenset({"connection"}))
    reply, violations = site.run("select unnest([{'a': NULL::union(a int, b text)}, NULL]) as x")
    assert reply.kind == "stopped"
    assert violations + site.changed_state() == []
    site.close()


def test_an_honest_statement_that_is_refused_is_noticed(open_site: Site) -> None:
    assert unanswered(open_site, Listed("SELECT * FROM spans", 1)).startswith("refused: ")
    assert unanswered(open_site, Listed("FROM range(3)", 2)) == "3 rows instead of 2"
    assert unanswered(open_site, Listed("FROM range(3)", 3)) == ""


def test_there_are_sixty_honest_statements_and_more() -> None:
    assert len(listed("honest.sql")) > 60
    assert sum(one.num_rows is not None for one in listed("honest.sql")) > 60


def test_a_seed_makes_the_same_statements() -> None:
    first, second = (list(Statements(5)(200)) for _ in range(2))
    assert first == second != list(Statements(6)(200))


def test_every_function_and_kind_of_statement_is_made() -> None:
    made = list(Statements(SEED)(11_000))
    assert {statement.stratum for statement in made} == set(WEIGHTS)
    called = "\n".join(s.text.lower() for s in made if s.stratum == "functions")
    assert [f.name for f in catalog().functions if f.name.lower() not in called] == []
    kinds = set()
    with duckdb.connect() as connection:
        for statement in made:
            if statement.stratum not in ("limits", "broken", "functions"):
                try:
                    kinds |= {s.type.name for s in connection.extract_statements(statement.text)}
                except (duckdb.Error, ValueError):  # ValueError: a type the binding does not know
                    continue
    every = {name for name in dir(duckdb.StatementType) if name.isupper()}
    assert every - kinds <= NOT_PARSED


def test_no_grammar_names_a_rule_that_nobody_has() -> None:
    assert Statements(0).grammar.missing() == {"inner"}
