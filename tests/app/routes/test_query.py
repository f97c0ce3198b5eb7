"""The query page's routes: answers, CSV, what is refused, what a browser that leaves stops."""

from __future__ import annotations

import csv
import io
import time

import pytest

import app.views.run.query
from app.runs.hub import Hub
from app.server import make_app
from ingest.query.saved_queries import saved_queries
from tests.app.in_process import Client
from tests.runs_builder import RunBuilder, two_rank_run


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    runs = tmp_path_factory.mktemp("queries")
    two_rank_run(runs / "two")
    RunBuilder(runs / "empty", 2)
    hub = Hub(runs)
    yield hub
    hub.close()


@pytest.fixture(scope="module")
def client(hub):
    client = Client(make_app(hub))
    yield client
    client.close()


PAGE = {"X-Rankscope": "1"}
"""What a page sends with a request that runs something."""


def sql(client, text, path="query"):
    return client.request("POST", f"/api/run/two/{path}", json={"sql": text}, headers=PAGE)


def rows(answer):
    assert answer.status_code == 200, answer.text
    content = answer.json()
    names = [column["name"] for column in content["columns"]]
    return [dict(zip(names, row, strict=True)) for row in content["rows"]]


def test_a_saved_query(client):
    answer = client.get("/api/run/two/query", params={"q": "steps", "q.step_min": "1"})
    assert [row["step"] for row in rows(answer)] == [1, 2]
    assert answer.json()["num_rows"] == 2
    assert answer.json()["is_counted"]


@pytest.mark.parametrize("name", saved_queries())
def test_every_saved_query_can_be_run(client, name):
    values = {"int": "0", "float": "1", "text": "0"}
    parameters = {
        f"q.{p.name}": values[p.type]
        for p in saved_queries()[name].parameters
        if p.required and p.name != "now_ns"
    }
    answer = client.get("/api/run/two/query", params={"q": name, **parameters})
    assert answer.status_code == 200, answer.text
    documented = [column for column, _ in saved_queries()[name].columns]
    assert [column["name"] for column in answer.json()["columns"]] == documented


def test_kinds_of_columns_and_values_that_json_has_not(client):
    answer = sql(
        client,
        "SELECT 9007199254740993 AS big, 1.5::DOUBLE AS f, 'nan'::DOUBLE AS nan, true AS b,"
        " NULL::INT AS nothing, 'x' AS t, DATE '2024-05-06' AS d, [1, 2] AS l, 1.25::DECIMAL(9,2)"
        " AS dec, 12::HUGEINT AS h, repeat('y', 900) AS long",
    )
    row = rows(answer)[0]
    kinds = {column["name"]: column["kind"] for column in answer.json()["columns"]}
    assert row["big"] == "9007199254740993"
    assert (row["f"], row["nan"], row["b"], row["nothing"]) == (1.5, "nan", True, None)
    assert (row["d"], row["l"], row["dec"], row["h"]) == ("2024-05-06", "[1, 2]", 1.25, 12)
    assert len(row["long"]) == 500
    assert kinds == {
        "big": "int",
        "f": "float",
        "nan": "float",
        "b": "bool",
        "nothing": "int",
        "t": "text",
        "d": "time",
        "l": "text",
        "dec": "float",
        "h": kinds["h"],
        "long": "text",
    }
    assert kinds["h"] in ("int", "float")


def test_of_a_long_answer_the_first_rows_come_and_all_are_counted(client):
    answer = sql(client, "SELECT range AS n FROM range(25000)").json()
    assert len(answer["rows"]) == 10_000
    assert (answer["num_rows"], answer["is_counted"]) == (25_000, True)


def test_what_takes_too_long_to_count_is_more_than(client, monkeypatch):
    monkeypatch.setattr(app.views.run.query, "COUNT_FOR_S", 0.05)
    answer = sql(client, "SELECT range AS n FROM range(1000000000000)").json()
    assert len(answer["rows"]) == 10_000
    assert not answer["is_counted"]
    assert answer["num_rows"] > 10_000


REFUSED = [
    "COPY spans TO '/tmp/x.csv'",
    "COPY (SELECT 1) TO '/tmp/x.parquet'",
    "ATTACH '/tmp/x.duckdb'",
    "PRAGMA database_list",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM read_parquet('/tmp/*.parquet')",
    "SELECT * FROM read_json('https://example.org/x.json')",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "RESET lock_configuration",
    "SELECT 1; SELECT 2",
    "SELECT 1; DROP TABLE files",
    "SELECT getenv('HOME')",
    "CREATE TABLE x (a INT)",
    "INSERT INTO snapshot.files SELECT * FROM snapshot.files",
    "DELETE FROM snapshot.ranks",
    "UPDATE snapshot.ranks SET rank = 1",
    "DROP TABLE snapshot.ranks",
    "EXPORT DATABASE '/tmp/x'",
    "CALL pragma_version()",
    "VACUUM",
    "",
    "   ",
    "SELECT",
    "SELECT " + "(" * 2000 + "1" + ")" * 2000,
]


@pytest.mark.parametrize("path", ["query", "query.csv"])
@pytest.mark.parametrize("text", REFUSED)
def test_refused_sql_is_one_sentence(client, text, path):
    answer = sql(client, text, path)
    assert answer.status_code == 400, answer.text[:300]
    sentence = answer.json()["error"]
    assert sentence
    assert "\n" not in sentence
    assert "Traceback" not in sentence
    assert rows(sql(client, "SELECT count(*) AS n FROM spans")) == [{"n": 30}]


def test_an_error_in_sql_has_its_place(client):
    sentence = sql(client, "SELECT kind\nFORM spans").json()["error"]
    assert 'near "spans" (line 2, character 6)' in sentence
    assert "kinds" in sql(client, "SELECT kinds FROM spans").json()["error"]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"q": "nope"}, "no saved query 'nope'"),
        ({"q": "steps", "q.nope": "1"}, "takes no 'nope'"),
        ({"q": "steps", "q.step_min": "x"}, "step_min is 'x'"),
        ({"q": "rank_timeline"}, "needs rank"),
        ({}, "no query was given"),
        ({"sql": "SELECT 1"}, "SQL is sent as POST"),
        ({"q": "steps", "sql": "SELECT 1"}, "SQL is sent as POST"),
    ],
)
def test_a_wrong_question_is_one_sentence(client, params, message):
    answer = client.get("/api/run/two/query", params=params)
    assert answer.status_code == 400
    assert message in answer.json()["error"]


def test_an_unknown_run_is_a_sentence(client):
    answer = client.request("POST", "/api/run/nope/query", json={"sql": "SELECT 1"}, headers=PAGE)
    assert answer.status_code == 400
    assert "no run 'nope'" in answer.json()["error"]


def test_a_run_without_data_has_empty_answers(client):
    answer = client.get("/api/run/empty/query", params={"q": "steps"}).json()
    assert (answer["rows"], answer["num_rows"]) == ([], 0)
    assert answer["columns"][0]["name"] == "step"


def test_csv_has_every_row_and_no_formulas(client):
    text = (
        "SELECT range AS n, CASE range WHEN 0 THEN '=1+1' WHEN 1 THEN '+1' WHEN 2 THEN '-1' WHEN 3"
        " THEN '@x' WHEN 4 THEN chr(9) || '=1' WHEN 5 THEN 'a,\"b' ELSE 'plain' END AS t,"
        " -range AS negative, NULL AS nothing FROM range(20000)"
    )
    answer = sql(client, text, "query.csv")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/csv")
    assert 'filename="two-sql.csv"' in answer.headers["content-disposition"]
    table_rows = list(csv.reader(io.StringIO(answer.text)))
    assert table_rows[0] == ["n", "t", "negative", "nothing"]
    assert [row[1] for row in table_rows[1:8]] == [
        "'=1+1",
        "'+1",
        "'-1",
        "'@x",
        "'\t=1",
        'a,"b',
        "plain",
    ]
    assert table_rows[2][2:] == ["-1", ""]
    assert len(table_rows) == 20_001


def test_csv_headers_are_harmless_too(client):
    answer = sql(client, "SELECT 1 AS \"=cmd|' /C calc'!A0\"", "query.csv")
    assert answer.text.startswith("'=cmd")


def test_the_name_of_a_file_has_no_surprises(tmp_path):
    two_rank_run(tmp_path / 'a"b\x7f<c>')
    hub = Hub(tmp_path)
    client = Client(make_app(hub))
    answer = client.get("/api/run/a%22b%7F%3Cc%3E/query.csv", params={"q": "steps"})
    client.close()
    hub.close()
    assert answer.headers["content-disposition"] == 'attachment; filename="a-b-c--steps.csv"'


def test_a_browser_that_leaves_stops_its_query(client):
    slow = b'{"sql": "SELECT count(*) FROM range(10000000) a, range(10000000) b"}'
    begun = time.monotonic()
    client.leave("POST", "/api/run/two/query", slow, 0.3, is_whole=True, **PAGE)
    assert time.monotonic() - begun < 10
