"""`rankscope query` and `rankscope index` as a user types them."""

from __future__ import annotations

import csv
import json

import pytest

from app.cli import main
from ingest.query.saved_queries import saved_queries
from tests.runs_builder import two_rank_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "two"
    two_rank_run(folder)
    return folder


def output_of(capsys, *arguments, code=0):
    assert main([str(argument) for argument in arguments]) == code
    output = capsys.readouterr()
    return output.err if code else output.out


def test_sql_as_text(folder, capsys):
    text = "SELECT kind, count(*) AS n, NULL AS nothing FROM spans GROUP BY kind ORDER BY kind"
    lines = output_of(capsys, "query", folder, text).splitlines()
    assert lines[0].split() == ["kind", "n", "nothing"]
    assert lines[1].split() == ["backward", "6", "-"]
    assert lines[-1] == "(5 rows)"


def test_a_folder_may_be_given_as_seen_from_here(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder.parent)
    lines = output_of(capsys, "query", folder.name, "SELECT count(*) AS n FROM steps").splitlines()
    assert lines[-1] == "(1 row)"


def test_sql_as_json_and_csv(folder, capsys):
    text = "SELECT rank, step, loss FROM steps WHERE rank = 1 ORDER BY step"
    rows = json.loads(output_of(capsys, "query", folder, text, "--json"))
    assert rows[2] == {"rank": 1, "step": 2, "loss": None}
    lines = output_of(capsys, "query", folder, text, "--csv").splitlines()
    assert list(csv.reader(lines)) == [
        ["rank", "step", "loss"],
        ["1", "0", ""],
        ["1", "1", ""],
        ["1", "2", ""],
    ]


def test_what_is_no_number_and_times_beyond_pythons(folder, capsys):
    text = "SELECT 'nan'::DOUBLE AS x, '-inf'::DOUBLE AS y, DATE 'infinity' AS d, 1.5 AS z"
    rows = json.loads(output_of(capsys, "query", folder, text, "--json"))
    assert rows == [{"x": None, "y": None, "d": 2**31 - 1, "z": "1.5"}]
    assert "2147483647" in output_of(capsys, "query", folder, text)
    assert "2147483647" in output_of(capsys, "query", folder, text, "--csv")


def test_control_characters_do_not_reach_the_terminal(folder, capsys):
    text = output_of(
        capsys, "query", folder, "SELECT chr(27) || '[2J' || chr(155) AS \"c\x1b[31m\""
    )
    assert text == "c\\x1b[31m\n\\x1b[2J\\x9b\n(1 row)\n"


@pytest.mark.parametrize("limit", ["nan", "inf", "-1", "0", "1e300", "soon"])
def test_a_wrong_limit_is_refused(folder, capsys, limit):
    with pytest.raises(SystemExit) as caught:
        main(["query", str(folder), "steps", "--limit-s", limit])
    assert caught.value.code == 2
    assert "--limit-s" in capsys.readouterr().err


def test_a_saved_query_with_values(folder, capsys):
    rows = json.loads(
        output_of(capsys, "query", folder, "step_times", "rank=1", "step_max=0", "--json")
    )
    assert [(row["rank"], row["step"]) for row in rows] == [(1, 0)]


def test_the_list_has_every_question(capsys):
    text = output_of(capsys, "query", "--list")
    assert all(f"\n{name}" in f"\n{text}" for name in saved_queries())
    listed = json.loads(output_of(capsys, "query", "--list", "--json"))
    assert [row["name"] for row in listed] == list(saved_queries())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("SELECT nope FROM spans",), "nope"),
        (("SELEC 1",), "SELEC"),
        (("DROP VIEW spans",), "exactly one SELECT"),
        (("step_times", "rank"), "KEY=VALUE"),
        (("step_times", "colour=red"), "takes no 'colour'"),
        (("no_such_query",), "no saved query"),
        (("SELECT 1", "a=1"), "saved queries"),
        ((), "give a run and a query"),
        (("step_times", "rank=" + "9" * 400), "give a whole number"),
        (("step_times", "rank=99999999999999999999"), "give a whole number"),
        (("step_times", "rank=1.5"), "give a whole number"),
        (("throughput", "peak_tflops=nan"), "give a number"),
        (("throughput", "peak_tflops=inf"), "give a number"),
        (("no\x1b[31m_question",), r"no\x1b[31m_question"),
    ],
)
def test_a_wrong_query_is_one_sentence_and_exit_2(folder, capsys, arguments, message):
    text = output_of(capsys, "query", folder, *arguments, code=2)
    assert message in text
    assert text.count("\n") == 1
