"""Attacks on free SQL by hand: each with all layers, and those that write with each layer alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.cli import main
from tests.hostile.free_sql.sql_target import LAYERS
from tests.hostile.sql.long_texts import DOUBLED, doubled
from tests.hostile.sql.process import Reply
from tests.hostile.sql.site import Site
from tests.hostile.sql.stage import SECRETS, Stage

WRITES = {
    "a CSV in place of a data file": "with x as (copy (select 'H4') to '@DATA@' (format csv, use_tmp_file false)) select 1",
    "any bytes in place of a data file": "with x as (copy (select 'H4'::blob) to '@DATA@' (format blob, use_tmp_file false)) from x",
    "a COPY that fails and leaves a file empty": "with x as (copy (select error('x')) to '@DATA@' (format csv, use_tmp_file false)) from x",
    "a file of the index": "with x as (copy (select 1) to '@SNAPSHOT@' (format csv, use_tmp_file false)) select 1",
    "a new file in the run": "with x as (copy (select 1) to '@RUN@/compacted/spans-9.parquet') select 1",
    "a file outside": "with x as (copy (select 1) to '@OUT@/new.csv') select 1",
    "files by partitions": "with x as (copy (from steps) to '@RUN@/segments' (format parquet, partition_by (rank), "
    "overwrite_or_ignore)) select 1",
    "a table by DELETE": "with x as (delete from device_peaks returning *) select count(*) from x",
    "a table by INSERT": "with x as (insert into device_peaks values ('x', 1, 'y') returning *) from x",
    "a table by UPDATE": "with x as (update device_peaks set peak_tflops = 1 returning *) from x",
    "a table by TRUNCATE": "with x as (truncate device_peaks) select 1",
    "a table by MERGE": "with x as (merge into device_peaks using (select 'x' as pattern) s using (pattern) "
    "when not matched by source then delete) select 1",
    "a table of the snapshot": "with x as (delete from snapshot_0.files) select 1",
    "by a list of CTEs": "with a as (select 1), b as (delete from device_peaks) from a",
    "by MATERIALIZED": "with x as materialized (delete from device_peaks) from x",
    "by a CTE named as a view": "with spans as (delete from device_peaks) from spans",
    "by brackets": "((with x as (delete from device_peaks) select 1))",
    "by a serialized statement": "from json_execute_serialized_sql(json_serialize_sql("
    "'with x as (delete from device_peaks) select 1'))",
    "by query()": "from query('with x as (delete from device_peaks) select 1')",
    "by EXPLAIN ANALYZE": "explain analyze delete from device_peaks",
    "by several statements": "select 1; delete from device_peaks",
    "by PREPARE": "prepare p as delete from device_peaks",
    "by a temporary view": "create or replace temp view spans as select 1",
    "by a macro": "create or replace macro peak_tflops_of(device) as 1",
    "by a setting": "set default_null_order = 'nulls_first'",
    "by a log file": "from enable_logging(storage := 'file', storage_path := '@OUT@/log')",
    "by a profile": "from enable_profiling(save_location := '@OUT@/profile.json', format := 'json')",
    "by the descriptor of a file that is open for reading": "with x as (copy (select 1) to '/proc/self/fd/<fd>' (use_tmp_file false)) select 1",
    "by COPY FROM DATABASE": "copy from database snapshot_0 to memory",
    "by EXPORT DATABASE": "export database '@RUN@/export'",
    "by ATTACH": "attach '@RUN@/index/new.duckdb' as a",
    "by a secret": "create persistent secret s (type http)",
    "by a variable": "set variable v = 1",
    "by an extension": "install '@SECRET@'",
}
READS = {
    "allowed paths": "select current_setting('allowed_paths')",
    "allowed folders": "select current_setting('allowed_directories')",
    "the home folder": "select current_setting('secret_directory')",
    "views": "from duckdb_views()",
    "views of PostgreSQL": "select pg_get_viewdef(oid) from pg_class",
    "views of the standard": "from information_schema.views",
    "databases": "from duckdb_databases()",
    "databases by PRAGMA": "from pragma_database_list",
    "settings": "from duckdb_settings()",
    "settings by SHOW": "from (show allowed_directories)",
    "extensions": "from duckdb_extensions()",
    "a plan": "explain from spans",
    "a plan that ran": "explain analyze from spans",
    "content of the model": "from frames",
    "content of the model, its file": "from '@CONTENT@'",
    "content of the model, its folder": "from read_parquet('@RUN@/segments/*.parquet')",
    "another run": "from read_parquet('@OTHERDATA@')",
    "a file outside": "from read_text('@SECRET@')",
    "a file outside by its name": "from '@SECRETCSV@'",
    "a file by a way around": "from read_text('@RUN@/segments/../../../outside/secret.txt')",
    "a relative file": "from 'secret.csv'",
    "users": "from read_csv('/etc/passwd')",
    "the environment": "from read_text('/proc/self/environ')",
    "the memory map": "from read_text('/proc/self/maps')",
    "open files": "from read_text('/proc/self/fd/<fd>')",
    "names of files": "from glob('@OUT@/*')",
    "a damaged file": "from clocks",
    "a file in a query in a text": "from query('from read_text(''@SECRET@'')')",
    "a file under a CTE's name": 'with "secret.csv" as (select 1) from (with x as (from "secret.csv") from "./secret.csv")',
    "a connection": "from read_csv('http://127.0.0.1:@PORT@/x.csv')",
}
LOADS = {
    "a list of 2e9 numbers": "select list_sum(range(2000000000))",
    "a text of 4e9 characters": "select repeat('a', 4000000000)",
    "a sorted list of 2e8 numbers": "select list_sort(range(200000000))",
    "the distance of long texts": "select damerau_levenshtein(repeat('ab', 40000), repeat('ba', 40000))",
    "25 CTEs that double": doubled(25, DOUBLED[2]),
    "an endless answer": "select repeat('x', 1000000) from range(1000000000)",
    "an endless recursion": "with recursive x as (select 1 as n union all select n from x) from x",
    "a sleep": "select sleep_ms(60000)",
}
ON = [LAYERS, *((layer,) for layer in LAYERS)]


@pytest.fixture(scope="module", params=ON, ids="+".join)
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("attack") / "0", "canary-attack", frozenset(request.param))
    yield site
    site.close()


@pytest.fixture(scope="module")
def whole_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("attack") / "0", "canary-attack", frozenset(LAYERS))
    yield site
    site.close()


def attacked(site: Site, text: str) -> tuple[Reply, list[str]]:
    """How it ended, and what it did that it must not; everything is as before then."""
    texts = [text.replace("<fd>", str(n)) for n in range(3, 24)] if "<fd>" in text else [text]
    found = []
    for one in texts:
        reply, seen = site.run(one)
        found += [f"{violation.kind}: {violation.detail}" for violation in seen]
    late = [f"{violation.kind}: {violation.detail}" for violation in site.changed_state()]
    if found or late:
        site.restore()
    return reply, found + late


@pytest.mark.sampled(every=12)
@pytest.mark.parametrize("attack", WRITES)
def test_nothing_is_written(site: Site, attack: str) -> None:
    reply, found = attacked(site, WRITES[attack])
    assert [one for one in found if one.startswith("write")] == []
    assert reply.kind != "crashed", reply.message


@pytest.mark.sampled
@pytest.mark.parametrize("attack", READS)
def test_nothing_but_the_run_is_read(whole_site: Site, attack: str) -> None:
    reply, found = attacked(whole_site, READS[attack])
    assert found == []
    assert reply.kind != "crashed", reply.message


@pytest.mark.sampled
@pytest.mark.parametrize("load", LOADS)
def test_limits_hold(whole_site: Site, load: str) -> None:
    reply, found = attacked(whole_site, LOADS[load])
    assert found == []
    assert reply.kind in ("stopped", "refused")
    assert whole_site.run("SELECT count(*) FROM spans")[0].kind == "rows"


@pytest.mark.parametrize("text", ["", ";", "-- nothing"])
def test_an_empty_statement_is_refused_by_every_layer(site: Site, text: str) -> None:
    reply, found = attacked(site, text)
    assert reply.kind == "refused"
    assert found == []


@pytest.mark.parametrize(
    "text", ["update extensions", "update extensions (httpfs)", "\x00", "pivot"]
)
def test_what_is_no_query_gets_a_sentence(whole_site: Site, text: str) -> None:
    reply, found = attacked(whole_site, text)
    assert reply.kind == "refused"
    assert found == []


def test_answers_do_not_reveal_whether_a_file_exists(whole_site: Site) -> None:
    messages = set()
    for path in ("@OUT@/secret.csv", "@OUT@/nobody.csv", "@HOME@", "@HOME@/nobody"):
        reply, _ = attacked(whole_site, f"from read_csv('{path}')")
        messages.add(reply.message.replace(whole_site.stage.concrete(path), "PATH"))
    assert len(messages) == 1


@pytest.mark.parametrize("damage", ["footer", "removed"])
def test_a_file_that_cannot_be_read_is_named_without_its_folder(
    whole_site: Site, damage: str
) -> None:
    stage = whole_site.stage
    [path] = (stage.run / "segments").glob("clocks-*")
    whole_site.process.kill()
    path.unlink() if damage == "removed" else path.write_bytes(b"PAR1 damaged PAR1")
    try:
        reply = whole_site.process.ask("SELECT * FROM clocks")
        others = whole_site.process.ask("SELECT count(*) FROM spans")
    finally:
        whole_site.restore()
    assert reply.kind == "refused"
    assert reply.leaks == ()
    assert str(stage.folder) not in reply.message
    assert others.kind == "rows"


def test_the_command_line_writes_nothing_either(
    whole_site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    stage: Stage = whole_site.stage
    for text in (WRITES["a CSV in place of a data file"], WRITES["a table by DELETE"]):
        code = main(["query", str(stage.run), stage.concrete(text)])
        printed = capsys.readouterr()
        violations = whole_site.changed_state()
        if violations:
            whole_site.restore()
        assert code == 2
        assert violations == []
        assert SECRETS["outside"] not in printed.out + printed.err
