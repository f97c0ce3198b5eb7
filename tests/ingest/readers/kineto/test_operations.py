"""Kernels of torch.profiler files know which operation launched them, on inputs of which shapes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ingest.run import open_run
from tests.ingest.readers.kineto.profiler_files import GPU, Json, event, flow, write
from tests.reader_results import Imported

MM = {"Input Dims": [[4, 8], [8, 2]], "Input type": ["float", "float"]}
MM_ARGS = {"op": "aten::mm", "dims": [[4, 8], [8, 2]], "types": ["float", "float"]}


def _launched(number: int, call: float, kernel: float, name: str = "k") -> list[Json]:
    """A kernel that begins at `kernel`, launched at `call`."""
    return [
        event(name, kernel, 2, "kernel"),
        flow("s", number, call),
        flow("f", number, kernel, **GPU),
    ]


def _args(run: Imported, kind: str = "kernel") -> list[Any]:
    rows = run.rows("spans", "kind", "args")
    return [None if args is None else json.loads(args) for own, args in rows if own == kind]


def test_a_kernel_has_the_shapes_of_the_innermost_operator_that_launched_it(
    tmp_path: Path, runs: Path
) -> None:
    events = [
        event("aten::linear", 0, 90, args={"Input Dims": [[4, 8]], "Input type": ["float"]}),
        event("aten::mm", 10, 20, args=MM),
        event("aten::mm", 40, 20, args=MM),
        event("of_a_library", 70, 10),
        *_launched(1, 12, 200),
        *_launched(2, 14, 210, "k2"),
        *_launched(3, 42, 220),
        *_launched(4, 72, 230),
        *_launched(5, 300, 301),
    ]
    run = Imported(write(tmp_path / "a.json", events), into=runs)
    assert _args(run) == [
        MM_ARGS | {"kernel": 0},
        MM_ARGS | {"kernel": 1},
        MM_ARGS | {"kernel": 0},
        None,  # its operator has no shapes
        None,  # launched outside of all operators
    ]
    assert set(map(str, _args(run, "host"))) == {"None"}


def test_inputs_are_kept_where_they_decide_the_work(tmp_path: Path, runs: Path) -> None:
    conv = {"Input Dims": [[1, 3, 8, 8], [4, 3, 3, 3]], "Concrete Inputs": ["", "", "[1, 1]"]}
    scale = {"Input Dims": [[4], []], "Concrete Inputs": ["", "0.125"]}
    events = [
        event("aten::cudnn_convolution", 0, 10, args=conv),
        event("aten::mul", 20, 10, args=scale),
        *_launched(1, 2, 100),
        *_launched(2, 22, 110),
    ]
    run = Imported(write(tmp_path / "a.json", events), into=runs)
    assert [args.get("inputs") for args in _args(run)] == [["", "", "[1, 1]"], None]


def test_without_kernels_and_devices_the_outermost_operators_that_compute_have_shapes(
    tmp_path: Path, runs: Path
) -> None:
    shapes = {"Input Dims": [[4, 8]], "Input type": ["float"]}
    events = [
        event("AddmmBackward0", 0, 90, args=shapes),
        event("aten::mm", 10, 20, args=MM),
        event("aten::copy_", 12, 5, args=shapes),  # part of the product
        event("aten::sort", 40, 10, args=shapes),
        event("aten::as_strided", 41, 2, args=shapes),
        event("c10d::allreduce_", 60, 20, args=shapes),  # communicates
    ]
    (tmp_path / "of_cpu").mkdir()
    run = Imported(write(tmp_path / "of_cpu" / "a.json", events), into=runs)
    named = [args["op"] for args in _args(run, "host") if args]
    assert named == ["aten::mm", "aten::as_strided"]  # innermost, or known to compute
    path = write(
        tmp_path / "of_gpu" / "a.json", events, deviceProperties=[{"id": 0, "name": "GPU"}]
    )
    hidden = Imported(path, into=runs)
    assert not any(_args(hidden, "host"))  # these may be the times of launches


def test_threads_written_as_text_are_those_of_their_flows(tmp_path: Path, runs: Path) -> None:
    events = [event("aten::mm", 0, 20, args=MM, tid="42"), *_launched(1, 2, 100)]
    run = Imported(write(tmp_path / "a.json", events), into=runs)
    assert _args(run) == [MM_ARGS | {"kernel": 0}]


def test_damaged_shapes_cost_only_themselves(tmp_path: Path, runs: Path) -> None:
    damaged: list[Any] = ["x", {"a": 1}, [[-1, 2**70]], [["x"]], [[[1, 2]]], [[1.5]], None]
    events: list[Json] = []
    for number, dims in enumerate(damaged):
        args = {"Input Dims": dims, "Input type": 7}
        events += [event("aten::mm", 10 * number, 5, args=args)]
        events += _launched(number, 10 * number + 1, 500 + 10 * number)
    long = {"Input Dims": [[1]] * 5000}
    events += [event("aten::mm", 200, 5, args=long), *_launched(99, 201, 700)]
    run = Imported(write(tmp_path / "a.json", events), into=runs)
    assert _args(run)[-1] is None  # too long
    with open_run(run.folder) as opened:
        rows = opened.ask("operation_kernels").to_pylist()
    assert sum(row["calls"] for row in rows) == len(damaged) + 1
