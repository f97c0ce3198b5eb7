"""Arguments, environment, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from trace_hooks.layout import ParallelLayout
from trace_hooks.protocol.watches import Watch
from trace_hooks.settings import chosen_sources, is_off, read_layout, read_settings
from trace_hooks.source_names import SOURCES


def test_environment_fills_what_the_code_leaves_open() -> None:
    environ = {
        "TRACE_HOOKS_FOLDER": "/data/runs",
        "TRACE_HOOKS_RUN": "night",
        "TRACE_HOOKS_LEVEL": "blocks",
        "TRACE_HOOKS_SOURCES": "-gc,-memory",
        "TRACE_HOOKS_LAYOUT": "pp=2,dp=2,tp=2",
    }
    read = read_settings(environ)
    assert (read.folder, read.run, read.level) == (Path("/data/runs"), "night", "blocks")
    assert read.sources == tuple(name for name in SOURCES if name not in ("gc", "memory"))
    assert read.layout == ParallelLayout((("pp", 2), ("dp", 2), ("tp", 2)))
    assert read_settings(environ, run="day", level="steps", folder="/x").run == "day"


def test_scheduler_job_id_names_the_run() -> None:
    assert read_settings({"SLURM_JOB_ID": "4711"}).run == "4711"
    assert read_settings({"PBS_JOBID": "12[3].host"}).run == "12_3_.host"
    assert read_settings({"SLURM_JOB_ID": "4711", "TRACE_HOOKS_RUN": "mine"}).run == "mine"
    assert read_settings({}).run is None


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"level": "deep"}, "deep"),
        ({"sources": ["gremlins"]}, "gremlins"),
        ({"sources": [1]}, "unknown source 1 (argument sources"),
        ({"sources": 5}, "sources is 5; give a list of names"),
        ({"sources": "modules"}, "sources is 'modules'; give a list of names"),
        ({"run": 5}, "run is 5; give a name"),
        ({"folder": 5}, "folder is 5; give the path of a folder"),
        ({"level": 5}, "unknown level 5"),
        ({"run": "../elsewhere"}, "../elsewhere"),
        ({"layout": "pp=two"}, "pp=two"),
        ({"layout": 3}, "int"),
        ({"layout": {"pp": 2, "order": 2}}, "unknown parallel axis 'order'"),
        ({"layout": '{"cls": 2}'}, "unknown parallel axis 'cls'"),
        ({"layout": {1: 2}}, "unknown parallel axis 1"),
        ({"layout": '{"a":' * 100_000}, "nested too deeply"),
        ({"layout": "tp=2,tp=4"}, "names tp twice"),
        ({"layout": "dp=3000000000"}, "has more than 1048576 ranks"),
        ({"statistics": -1}, "is -1; give a number of steps"),
        ({"statistics": "often"}, "is 'often'; give a number of steps"),
        ({"statistics": True}, "is True; give a number of steps"),
        ({"allow_content": "yes"}, "allow_content is 'yes'; give True or False"),
    ],
)
def test_clearly_wrong_arguments_are_refused_by_name(arguments: dict, word: str) -> None:
    with pytest.raises(ValueError, match=re.escape(word)):
        read_settings({}, **arguments)


def test_sources_named_are_the_only_ones() -> None:
    assert chosen_sources(["gc", "data"]) == ("data", "gc")
    assert chosen_sources([]) == tuple(SOURCES)


@pytest.mark.parametrize(("text", "every"), [("", 1), ("1", 1), ("10", 10), ("0", 0)])
def test_spans_of_every_step_of_some_or_of_none(text: str, every: int) -> None:
    assert read_settings({"TRACE_HOOKS_SPANS_EVERY": text}).spans_every == every


@pytest.mark.parametrize("text", ["-1", "1.5", "all", "1e3"])
def test_an_interval_of_spans_that_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"TRACE_HOOKS_SPANS_EVERY is .*; give a number of steps"):
        read_settings({"TRACE_HOOKS_SPANS_EVERY": text})


def test_statistics_are_off_by_default() -> None:
    environ = {"TRACE_HOOKS_STATISTICS": "100"}
    assert read_settings({}).statistics_every == 0
    assert read_settings(environ).statistics_every == 100
    assert read_settings(environ, statistics=0).statistics_every == 0
    with pytest.raises(ValueError, match="is '1e3'; give a number of steps"):
        read_settings({"TRACE_HOOKS_STATISTICS": "1e3"})


def test_content_is_closed_unless_it_is_opened() -> None:
    assert not read_settings({}).allow_content
    assert not read_settings({"TRACE_HOOKS_ALLOW_CONTENT": "0"}).allow_content
    assert read_settings({"TRACE_HOOKS_ALLOW_CONTENT": "1"}).allow_content
    assert not read_settings({"TRACE_HOOKS_ALLOW_CONTENT": "1"}, allow_content=False).allow_content
    with pytest.raises(ValueError, match="TRACE_HOOKS_ALLOW_CONTENT is 'maybe'; give 1 or 0"):
        read_settings({"TRACE_HOOKS_ALLOW_CONTENT": "maybe"})


def test_watches_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "watches.json"
    environ = {"TRACE_HOOKS_WATCHES": str(path)}
    assert read_settings({}).watches == ()
    path.write_text('[{"what": "mlp", "every": 5}]')
    assert read_settings(environ).watches == (Watch("mlp", "mlp", every=5),)
    path.write_text('[{"what": "mlp", "rows": 1000000000}]')
    with pytest.raises(ValueError, match=r"TRACE_HOOKS_WATCHES: .*watches.json: .*rows is 1000000"):
        read_settings(environ)
    path.write_bytes(b"\xff" * 1_000_000)
    with pytest.raises(ValueError, match="TRACE_HOOKS_WATCHES"):
        read_settings(environ)
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        read_settings({"TRACE_HOOKS_WATCHES": str(tmp_path / "none.json")})


def test_layout_from_each_form() -> None:
    wanted = ParallelLayout((("pp", 2), ("tp", 4)))
    for form in (wanted, {"pp": 2, "tp": 4}, "pp=2,tp=4", '{"pp": 2, "tp": 4}', wanted.to_json()):
        assert read_layout(form) == wanted
    assert read_layout(None) is None


@pytest.mark.parametrize(("value", "off"), [("0", True), ("off", True), ("1", False), ("", False)])
def test_switch(value: str, off: bool) -> None:
    assert is_off({"TRACE_HOOKS": value}) is off


def test_telemetry_is_on_unless_it_is_switched_off() -> None:
    assert read_settings({}).telemetry
    assert not read_settings({"TRACE_HOOKS_TELEMETRY": "0"}).telemetry
    with pytest.raises(ValueError, match="TRACE_HOOKS_TELEMETRY is 'perhaps'"):
        read_settings({"TRACE_HOOKS_TELEMETRY": "perhaps"})


def test_files_are_sent_only_where_there_is_a_server() -> None:
    with pytest.raises(ValueError, match="TRACE_HOOKS_SHIP needs TRACE_HOOKS_SERVER"):
        read_settings({"TRACE_HOOKS_SHIP": "1"})
    server = {"TRACE_HOOKS_SERVER": "ws://login", "TRACE_HOOKS_TOKEN": "secret-secret"}
    assert not read_settings(server).ships
    assert read_settings({"TRACE_HOOKS_SHIP": "1", **server}).ships


def test_the_collector_is_on_unless_the_files_are_sent() -> None:
    server = {"TRACE_HOOKS_SERVER": "ws://login", "TRACE_HOOKS_TOKEN": "secret-secret"}
    ships = {"TRACE_HOOKS_SHIP": "1", **server}
    assert read_settings({}).collector
    assert not read_settings({"TRACE_HOOKS_COLLECTOR": "0"}).collector
    assert not read_settings(ships).collector
    with pytest.raises(ValueError, match="TRACE_HOOKS_SHIP and TRACE_HOOKS_COLLECTOR exclude"):
        read_settings(ships | {"TRACE_HOOKS_COLLECTOR": "1"})
