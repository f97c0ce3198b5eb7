"""The questions about what a job gets done: rows in, table out."""

from __future__ import annotations

import json

import pytest

from ingest.run import open_run
from tests.ingest.query.late_rank import one
from tests.runs_builder import T0, US, RunBuilder
from trace_hooks.layout import ParallelLayout
from trace_hooks.schema import publish_json, rank_file_name


def test_throughput(run):
    row = run.ask("throughput", peak_tflops=0.1).to_pylist()[0]
    assert row["tokens_per_s"] == pytest.approx(800 / 1e-4)
    assert row["tflops_per_s"] == pytest.approx(8e6 / 1e-4 / 1e12)
    assert row["mfu_ratio"] == pytest.approx(8e6 / (1e-4 * 8 * 1e11))
    assert row["flops_from"] == "logged"
    without = run.ask("throughput").to_pylist()[0]
    assert (without["mfu_ratio"], without["peak_tflops"]) == (None, None)


DENSE = {"parameters": 1000, "layers": 2, "hidden": 8, "seq": 16}


def asked_throughput(folder, model, devices, **values):
    builder = RunBuilder(folder, 2, ParallelLayout.from_sizes(tp=2), model=model)
    builder.rank_files()
    for rank, device in enumerate(devices):
        path = builder.folder / "ranks" / rank_file_name(0, rank)
        publish_json(json.loads(path.read_text()) | {"device": device}, path)
        builder.step(rank, 0, 0, 100, tokens=50.0)
    builder.publish()
    with open_run(builder.folder) as run:
        return one(run, "throughput", **values)


def test_flops_and_peak_come_from_the_model_and_the_devices(tmp_path):
    row = asked_throughput(tmp_path / "run", DENSE, ["NVIDIA A100-SXM4-80GB"] * 2)
    flops = 50 * (6 * 1000 + 12 * 2 * 8 * 16)
    assert row["flops_from"] == "model"
    assert row["tflops_per_s"] == pytest.approx(flops / 1e-4 / 1e12)
    assert row["mfu_ratio"] == pytest.approx(flops / (1e-4 * 2 * 312e12))


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(
    "model",
    [
        None,
        [1],
        {},
        {**DENSE, "experts": 8},
        {**DENSE, "hidden": None},
        {**DENSE, "seq": -1},
        {**DENSE, "layers": True},
        {**DENSE, "parameters": 10**400},
        {**DENSE, "parameters": float("nan")},
        {**DENSE, "parameters": "7B"},
    ],
)
def test_without_the_sizes_of_a_dense_decoder_there_are_no_flops(tmp_path, model):
    row = asked_throughput(tmp_path / "run", model, ["NVIDIA H200"] * 2)
    assert (row["tflops_per_s"], row["mfu_ratio"], row["flops_from"]) == (None, None, None)
    assert row["peak_tflops"] == 989


def test_one_unknown_device_leaves_the_utilisation_unknown(tmp_path):
    row = asked_throughput(tmp_path / "run", DENSE, ["NVIDIA A100-SXM4-80GB", "cpu"])
    assert (row["peak_tflops"], row["mfu_ratio"]) == (None, None)
    row = asked_throughput(tmp_path / "two", DENSE, ["cpu", "cpu"], peak_tflops=1)
    assert row["mfu_ratio"] is not None


@pytest.mark.parametrize(
    ("device", "peak"),
    [
        ("NVIDIA A100-SXM4-80GB", 312),
        ("NVIDIA A100-PCIE-40GB", 312),
        ("NVIDIA H200", 989),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", None),
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA H100 NVL", None),
        ("NVIDIA H200 NVL", None),
        ("NVIDIA GB200", None),
        ("NVIDIA B200", 2250),
        ("AMD Instinct MI250X", 191.5),
        ("AMD Instinct MI300X", 1307),
        ("NVIDIA A1000", None),
        ("cpu", None),
        ("", None),
    ],
)
def test_peaks_of_devices(run, device, peak):
    answer = run.execute("SELECT peak_tflops_of($d) AS peak", {"d": device})
    assert answer.to_pylist() == [{"peak": peak}]


def test_goodput(run):
    row = one(run, "goodput")
    assert row["wall_s"] == pytest.approx(600e-6)
    assert row["checkpoint_s"] == pytest.approx(10e-6)
    assert row["productive_s"] == pytest.approx(490e-6)
    assert row["goodput_ratio"] == pytest.approx(490 / 600)


def goodput_of_attempts(folder, *attempts):
    """Rows of goodput of a rank whose attempts have these steps, 100 us each."""
    builder = RunBuilder(folder, 1)
    for attempt, steps in enumerate(attempts):
        builder.rank_files(attempt)
        for step in steps:
            at_ns = T0 + (attempt * 2000 + step * 100) * US
            builder.add("steps", 0, step, attempt, start_ns=at_ns, dur_ns=100 * US)
    builder.publish()
    with open_run(builder.folder) as run:
        return run.ask("goodput").to_pylist()


def test_goodput_excludes_rewound_steps(tmp_path):
    first, second = goodput_of_attempts(tmp_path / "run", (0, 1, 2), (1, 2, 3))
    assert first["productive_s"] == pytest.approx(100e-6)
    assert first["rewound_s"] == pytest.approx(200e-6)
    assert (second["productive_s"], second["rewound_s"]) == (pytest.approx(300e-6), 0)


def test_steps_that_a_later_attempt_has_yet_to_repeat_are_lost_already(tmp_path):
    rows = goodput_of_attempts(tmp_path / "run", range(10), range(4, 6), range(5, 7))
    assert [row["productive_s"] for row in rows] == pytest.approx([400e-6, 100e-6, 200e-6])
    assert [row["rewound_s"] for row in rows] == pytest.approx([600e-6, 100e-6, 0])


def test_a_job_begins_at_the_latest_with_its_first_step(tmp_path):
    """Clocks of hosts differ: a step may seem to begin before the hooks of another host did."""
    builder = RunBuilder(tmp_path / "run", 1)
    builder.rank_files()
    builder.add("steps", 0, 0, start_ns=T0 - 20 * US, dur_ns=100 * US)
    builder.publish()
    with open_run(builder.folder) as run:
        row = one(run, "goodput")
    assert (row["start_up_s"], row["started_ns"]) == (0, T0 - 20 * US)
    assert row["wall_s"] == pytest.approx(row["productive_s"])
