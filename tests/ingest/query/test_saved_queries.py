"""What holds for every saved query; what each answers is in the modules next to this one."""

from __future__ import annotations

import pytest

from ingest.errors import UserError
from ingest.query.saved_queries import parse_saved_query, saved_queries
from ingest.run import open_run
from ingest.run_folder.run_files import DECODER_SIZES
from tests.runs_builder import T0, US, RunBuilder

OF_OTHER_RUNS = (
    "allocator_retries",
    "stage_memory",
    "rank_looks",
    "stopped_ranks",
    "last_log_lines",
    "log_lines",
    "logged_processes",
    "labelled_log_lines",
    "loader_work",
    "batch_lengths",
    "loader_memory",
    "loader_standby",
    "source_mix",
    "redundant_reads",
    "expert_load",
    "expert_places",
    "expert_times",
    "startup",
    "checkpoint_calls",
    "log_progress",
    "data_gaps",
    "end_lateness",
    "ranks_without_steps",
    "tensor_health",
    "attention_health",
    "weight_checksums",
    "tensor_histogram",
    "tensors_recorded",
    "nonfinite_tensors",
    "hook_cost_by_source",
    "host_metric_series",
    "host_metric_cells",
    "device_metric_cells",
    "machine_changes",
    "unreadable_metrics",
    "selftests",
    "machine_seconds",
    "device_levels",
    "profiled_steps",
    "operation_kernels",
)
"""Questions that have no row in a run with steps and spans; tests of their own ask them."""
GOES_WITH = {
    "host_metric_series": {"metric": "memory_available_bytes"},
    "device_metric_cells": {"metric": "port_received_bytes_total"},
    "rank_timeline": {"rank": 1},
    "step_breakdown": {"rank": 0},
    "collective_members": {"group_id": 7, "seq": 1},
    "data_age": {"now_ns": T0},
    "rank_cells": {"metric": "compute"},
    "window_spans": {"ranks": "0,1"},
    "window_waits": {"ranks": "0,1"},
    "step_windows": {"ranks": "0,1"},
    "step_extent": {"ranks": "0,1"},
    "step_shares": {"ranks": "0,1"},
    "span_search": {"ranks": "0,1", "text": "X"},
    "collective_bins": {"ranks": "0,1", "begin_ns": T0, "end_ns": T0 + 100 * US, "bin_ns": US},
    "collective_extent": {"ranks": "0,1"},
    "collective_search": {"ranks": "0,1", "text": "ALL_"},
    "ranks_without_steps": {"ranks": "0,99"},
    "window_collectives": {"ranks": "0,1"},
    "device_levels": {"host": "h0", "split_s": T0 / 1e9},
    "tensor_histogram": {"tensor": "residual", "layer": 0},
}
"""Values of required parameters."""
GIVEN_BY_RUN = {"run", "clock"} | {f"model_{name}" for name in DECODER_SIZES}
"""Values that run.json gives."""


@pytest.mark.parametrize("name", saved_queries())
def test_the_header_names_the_columns(run, name):
    answer = run.ask(name, **GOES_WITH.get(name, {}))
    assert [column for column, _ in saved_queries()[name].columns] == answer.column_names
    assert (answer.num_rows > 0) == (name not in OF_OTHER_RUNS)


@pytest.fixture(scope="module")
def empty_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("empty") / "run"
    RunBuilder(folder, 2)
    with open_run(folder) as opened:
        yield opened


@pytest.mark.parametrize("name", saved_queries())
def test_a_run_without_data_has_empty_answers(empty_run, name):
    assert empty_run.ask(name, **GOES_WITH.get(name, {})).num_rows == 0


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("nonsense", {}, "no saved query 'nonsense'; `rankscope query --list` lists them"),
        ("rank_timeline", {}, "needs rank"),
        ("rank_timeline", {"rank": "one"}, "rank is 'one'; give a whole number"),
        ("rank_timeline", {"rank": True}, "give a whole number"),
        ("steps", {"colour": 1}, "takes no 'colour'; it takes attempt, step_max, step_min"),
    ],
)
def test_a_wrong_question_is_one_sentence(run, name, values, message):
    with pytest.raises(UserError, match=message):
        run.ask(name, **values)


def test_values_are_never_sql(run):
    nasty = "x' OR 1=1; DROP TABLE files; --"
    assert run.ask("heat_map", metric=nasty).num_rows == 0


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "-- Meaning.\n-- empty: never\nSELECT 1",
        "-- Meaning.\n-- column: a  b\n-- empty: never\n-- reads: nothing\nSELECT 1",
        "-- Meaning.\n-- param: x\n-- column: a  b\n-- empty: never\nSELECT 1",
    ],
)
def test_an_incomplete_header_is_refused(text):
    with pytest.raises(ValueError, match=r"q\.sql"):
        parse_saved_query("q", text)


def test_every_value_in_the_sql_is_declared():
    for query in saved_queries().values():
        declared = {parameter.name for parameter in query.parameters} | set(query.reads)
        assert query.used <= declared | GIVEN_BY_RUN, query.name
        assert {parameter.name for parameter in query.parameters} <= query.used, query.name


def test_documentation_shows_defaults_without_a_limit_in_words():
    shown = {p.name: p.shown_default for p in saved_queries()["window_spans"].parameters}
    assert (shown["end_ns"], shown["from_ns"], shown["rank_max"]) == ("no limit",) * 3
    assert (shown["rank_min"], shown["step"], shown["attempt"]) == ("0", "null", "newest")
