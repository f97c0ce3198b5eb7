"""`rankscope info` and `rankscope import`, through the real command line in process."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app.cli import VERBS, main
from ingest.imports.importer import import_paths
from ingest.imports.worker_command import HERE_VARIABLE
from tests.app.commands.json_output import json_of
from tests.folders import NO_TRACES, TRACES
from tests.runs_builder import T0, RunBuilder
from trace_hooks.layout import ParallelLayout

needs_traces = pytest.mark.skipif(not TRACES.is_dir(), reason=NO_TRACES)
KEYS = [
    "run",
    "format",
    "num_ranks",
    "world_size",
    "layout",
    "layout_from",
    "attempts",
    "steps",
    "num_spans",
    "events_per_rank",
    "problems",
    "guesses",
    "provenance",
    "clock",
]
EVENT = '{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1.5, "dur": 2}'
TRACE = f'{{"schemaVersion": 1, "traceEvents": [{EVENT}], "baseTimeNanoseconds": 1700000000}}'


def _info(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    summary = json_of(capsys, "info", path)
    assert list(summary) == KEYS
    return summary


@needs_traces
def test_eight_ranks_of_a_profiler_archive(capsys: pytest.CaptureFixture[str]) -> None:
    summary = _info(TRACES / "kineto/dlrm8.tar.gz", capsys)
    events = (3290, 3424, 3268, 3474, 3310, 3250, 3272, 3250)
    assert summary["format"] == "kineto"
    assert (summary["num_ranks"], summary["world_size"], summary["layout"]) == (8, 8, None)
    assert summary["steps"] == [10]
    assert summary["events_per_rank"] == {str(rank): n for rank, n in enumerate(events)}
    assert summary["problems"] == []
    clock = summary["clock"]
    assert isinstance(clock, dict)
    assert (clock["kind"], clock["method"]) == ("absolute", "matched_collectives")
    assert 0 < clock["max_err_ns"] < 20_000


@needs_traces
def test_a_folder_with_an_execution_trace_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    summary = _info(TRACES / "kineto/megatron_tp2", capsys)
    assert (summary["num_ranks"], summary["steps"]) == (2, [6])
    assert summary["events_per_rank"] == {"0": 3742, "1": 4082}
    (problem,) = summary["problems"]  # type: ignore[misc]
    assert "pytorch_et_0.json is a PyTorch execution trace" in problem


@needs_traces
def test_a_straggler_trace(capsys: pytest.CaptureFixture[str]) -> None:
    summary = _info(TRACES / "straggler_analysis/trace-ST.parquet", capsys)
    assert summary["format"] == "straggler_analysis"
    assert (summary["num_ranks"], summary["world_size"], summary["attempts"]) == (8, 8, 1)
    assert (len(summary["steps"]), summary["num_spans"]) == (32, 6784)  # type: ignore[arg-type]
    assert summary["layout"] == {"pp": 4, "dp": 2, "tp": 1}
    assert summary["clock"] == {"kind": "per_step_relative", "max_err_ns": None, "method": "none"}
    assert summary["events_per_rank"] == {}


def test_a_run_of_the_hooks_with_a_restart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = ParallelLayout.from_sizes(tp=2)
    run = RunBuilder(tmp_path / "mine", layout=layout, problems=["a note"])
    for attempt, steps in ((0, (0, 1)), (1, (1, 2))):
        run.rank_files(attempt)
        for rank in (0, 1):
            run.add("clocks", rank, -1, attempt, ts_ns=T0, err_ns=700 * rank, method="same_host")
            for step in steps:
                start_ns = T0 + step * 100_000
                run.add("steps", rank, step, attempt, start_ns=start_ns, dur_ns=100_000)
                run.add("spans", rank, step, attempt, ts_ns=start_ns, dur_ns=50_000, kind="gc")
    run.publish()
    assert _info(tmp_path / "mine", capsys) == {
        "run": "mine",
        "format": "native",
        "num_ranks": 2,
        "world_size": 2,
        "layout": {"tp": 2},
        "layout_from": "job",
        "attempts": 2,
        "steps": [0, 1, 2],
        "num_spans": 8,
        "events_per_rank": {},
        "problems": ["a note"],
        "guesses": [],
        "provenance": [],
        "clock": {"kind": "absolute", "max_err_ns": 700, "method": "same_host"},
    }


def test_the_summary_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rank-4.json").write_text(TRACE)
    assert main(["info", str(tmp_path / "rank-4.json")]) == 0
    out = capsys.readouterr().out
    assert "ranks     1 (size of the job unknown)\n" in out
    assert "spans     1\n" in out
    assert "rank-4.json: rank 4 is taken from the name of the file" in out


def _text(folder: Path) -> None:
    (folder / "bad").write_text("no trace at all")


def _empty(folder: Path) -> None:
    (folder / "bad").write_bytes(b"")


def _truncated_gzip(folder: Path) -> None:
    (folder / "bad").write_bytes(gzip.compress(TRACE.encode())[:20])


def _gzip_of_half_a_header(folder: Path) -> None:
    (folder / "bad").write_bytes(gzip.compress(b'{"schemaVersion": 1, "deviceProperties": [{'))


def _folder_of_nothing(folder: Path) -> None:
    (folder / "bad").mkdir()


def _not_there(folder: Path) -> None:
    assert not (folder / "bad").exists()


def _newer_schema(folder: Path) -> None:
    (folder / "rank-0.json").write_text(TRACE)
    run = import_paths([folder / "rank-0.json"], folder)
    text = (run / "run.json").read_text()
    (run / "run.json").write_text(text.replace('"schema": "1.', '"schema": "2.'))
    run.rename(folder / "bad")


def _damaged_run(folder: Path) -> None:
    (folder / "bad").mkdir()
    (folder / "bad" / "run.json").write_text("{")


@pytest.mark.parametrize("verb", ["info", "import"])
@pytest.mark.parametrize(
    "make",
    [
        _text,
        _empty,
        _truncated_gzip,
        _gzip_of_half_a_header,
        _folder_of_nothing,
        _not_there,
        _newer_schema,
        _damaged_run,
    ],
)
def test_a_bad_file_is_one_sentence_and_exit_2(
    verb: str, make: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path)  # type: ignore[operator]
    into = ["--into", str(tmp_path / "runs")] if verb == "import" else ["--json"]
    assert main([verb, str(tmp_path / "bad"), *into]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"rankscope {verb}: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert "bad" in err


def test_ctrl_c_leaves_nothing_and_exits_130(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    path = tmp_path / "rank-4.json"
    path.write_text(TRACE)
    monkeypatch.delenv(HERE_VARIABLE)
    monkeypatch.setattr("ingest.imports.importer.Pool.put_together", interrupted)
    assert main(["import", str(path), "--into", str(tmp_path / "runs")]) == 130
    assert list((tmp_path / "runs").iterdir()) == []
    assert "Traceback" not in capsys.readouterr().err


def test_help_lists_every_verb_without_importing_any(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    out = capsys.readouterr().out
    assert all(f"{verb} " in out for verb in VERBS)


def test_info_on_a_run_folder_starts_without_heavy_modules(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.json"
    path.write_text(TRACE)
    run = import_paths([path], tmp_path)
    code = (
        "import sys; from app.cli import main; code = main(['info', sys.argv[1], '--json']);"
        "heavy = {'torch', 'dash', 'plotly', 'app.commands.demo'} & set(sys.modules);"
        "sys.exit(f'imported {heavy}' if heavy else code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(run)], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["format"] == "kineto"
    shutil.rmtree(run)
