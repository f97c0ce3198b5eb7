"""What parts of the GPU kit make of frames, jobs and readings: made-up ones, no GPU has run
for these tests.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.gpu.children import Ended, run_job
from benchmarks.gpu.figures import Figure
from benchmarks.gpu.parts import capture, content, devices, failures, losses, nvml
from trace_hooks.protocol.frames import stored


def test_a_step_without_kernels_does_not_hold() -> None:
    full = [100, 100, 100, 100, 100, 100]
    assert capture.counts_figure(full, 100).holds
    assert capture.counts_figure([*full[:5], 3], 100).holds is False
    assert capture.counts_figure(full[:5], 100).holds is False
    assert capture.counts_figure([], 0).holds is False


def test_times_after_a_capture_are_compared_with_those_before() -> None:
    times = {"before": [(1.0, 0.5), (1.0, 0.5), (3.0, 0.5), (3.0, 0.5)], "after": [(4.0, 0.75)] * 4}
    figures = {figure.name: figure.value for figure in capture.time_figures(times)}
    assert figures["a step after against before, wall time"] == 2.0
    assert figures["the same, second half against first: noise, wall time"] == 2.0
    assert figures["a step after against before, CPU time"] == 0.25


def frame(
    what: str, values: Any, head: int = -1, sample: int = 0, name: str = ""
) -> dict[str, Any]:
    return {
        "what": what,
        "name": name,
        "head": head,
        "sample": sample,
        **stored(np.asarray(values, np.float32)).columns(),
        "shape": list(np.shape(values)),
    }


def test_a_frame_of_float16_holds_and_one_that_is_further_off_does_not() -> None:
    truth = np.array([[1.0, -3.0, 0.001]])
    assert content.compared(truth, truth).num_differ == 0
    assert content.compared(truth, truth).excess <= 0
    rounded = content.values_of(frame("mlp", truth))
    close = content.compared(rounded, truth)
    assert close.num_differ == 1
    assert close.excess <= 0
    assert content.compared(truth * 1.01, truth).excess > 0
    assert content.compared(truth, None).excess == float("inf")
    assert content.compared(truth, truth.T).excess == float("inf")


def test_attention_is_held_against_q_and_k() -> None:
    generator = torch.Generator().manual_seed(0)
    query, key = (torch.randn(1, 2, 5, 4, generator=generator).double() for _ in range(2))
    own = {("query", "layer 0"): query, ("key", "layer 0"): key}
    expected = torch.nn.functional.scaled_dot_product_attention(
        query, key, torch.eye(5).double().expand(1, 2, 5, 5), is_causal=True
    )
    row = frame("attention", expected[0, 1].numpy(), head=1)
    (kept,) = [f for f in content.frame_figures("x", [row], own, "") if f.value == 1]
    assert kept.holds
    row = frame("attention", expected[0, 0].numpy(), head=1)  # of another head
    (kept,) = [f for f in content.frame_figures("x", [row], own, "") if f.value == 1]
    assert kept.holds is False


def test_a_kind_without_a_frame_does_not_hold() -> None:
    assert all(f.holds is False for f in content.frame_figures("x", [], {}, ""))


ASSERTED = """\
loading
Traceback (most recent call last):
  File "job.py", line 3, in <module>
torch.AcceleratorError: CUDA error: device-side assert triggered
CUDA kernel errors might be asynchronously reported
"""


def test_the_exception_of_a_job_is_its_first_line() -> None:
    ended = Ended(1, ASSERTED, 1.0)
    assert ended.raised == "torch.AcceleratorError: CUDA error: device-side assert triggered"
    assert Ended(0, "SomeError: printed, not raised", 1.0).raised == ""
    assert Ended(0, "", 1.0).last_line == "it printed nothing"


def test_a_job_that_hangs_is_killed(tmp_path: Path) -> None:
    ended = run_job("failing", ("oom", "cpu", tmp_path, "none"), 0.2)
    assert ended.code is None
    assert ended.found is None
    assert "more than" in ended.fault


@pytest.mark.long
def test_the_results_of_a_job_are_not_lost_in_its_output(tmp_path: Path) -> None:
    ended = run_job("failing", ("oom", "cpu", tmp_path, "none"), 60)
    assert ended.fault == ""
    assert len(ended.found) == 10
    assert "out of memory 1 times" in ended.text


def written(folder: Path, rank: dict[str, Any] | None) -> Path:
    folder.mkdir()
    if rank is not None:
        ranks = folder / "runs" / "failing" / "ranks"
        ranks.mkdir(parents=True)
        (ranks / "0000-00000.json").write_text(json.dumps(rank), encoding="utf-8")
    return folder


def missed(figures: list[Figure]) -> set[str]:
    return {figure.name for figure in figures if figure.holds is False}


def test_a_job_that_goes_on_must_end_well_with_the_same_losses(tmp_path: Path) -> None:
    rank = {"hooks": {"errors": {}}, "end": None}
    broken = {"hooks": {"errors": {"modules.enter": 1}}, "end": None}
    folders = {
        way: written(tmp_path / way, file)
        for way, file in {"none": None, "again": None, "hooks": rank, "all": broken}.items()
    }
    handed_over = {"none": [1, 2, 3], "again": [1, 2, 3], "hooks": [1, 2, 3], "all": [1, 2]}
    ended = {way: Ended(0, "", 1.0, found) for way, found in handed_over.items()}
    assert missed(failures.going_on_figures("graph", ended, folders)) == {
        "graph, all: losses that differ",
        "graph, all: errors of hooks",
    }
    noisy = ended | {"again": Ended(0, "", 1.0, [1, 2, 4])}  # no verdict on the others
    assert missed(failures.going_on_figures("graph", noisy, folders)) == {
        "graph, all: errors of hooks"
    }
    hung = ended | {"hooks": Ended(None, "", 75.0)}
    assert "graph, hooks: the job" in missed(failures.going_on_figures("graph", hung, folders))
    assert "oom: the job ran out of memory once" in missed(
        failures.going_on_figures("oom", ended, folders)
    )


def test_losses_are_not_judged_where_the_device_does_not_compute_the_same_twice() -> None:
    differ = losses.differing([1, 2, 3], [1, 5])
    assert differ == 2
    assert losses.loss_figure("x", 3, differ, 0).holds is False
    assert losses.loss_figure("x", 3, 0, 0).holds
    assert losses.loss_figure("x", 3, differ, 1).holds is None


def test_a_job_whose_device_fails_must_fail_as_without_hooks(tmp_path: Path) -> None:
    handed_over = {
        "hooks": {"errors": {}},
        "end": {
            "status": "failed",
            "error": "RuntimeError: CUDA error: device-side assert triggered",
        },
    }
    folders = {
        "hooks": written(tmp_path / "hooks", handed_over),
        "all": written(tmp_path / "all", {"hooks": {"errors": {}}, "end": None}),
    }
    one = Ended(1, ASSERTED, 5.0)
    ended = {"none": one, "again": one, "hooks": one, "all": Ended(-6, ASSERTED, 30.0)}
    assert missed(failures.assert_figures("assert", ended, folders)) == {
        "assert, all: exit code and exception",
        "assert, all: ends later by",
        "assert, all: the run folder",
    }


LISTED = """\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-aaaa1111-0000-0000-0000-000000000000)
  MIG 1g.10gb     Device  0: (UUID: MIG-cccc3333-0000-0000-0000-000000000000)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-bbbb2222-0000-0000-0000-000000000000)
"""


def test_devices_are_chosen_from_what_nvidia_smi_lists() -> None:
    gpus, migs = devices.gpus_of(LISTED), devices.migs_of(LISTED)
    assert list(gpus) == ["0", "1"]
    chosen = devices.choices(None, gpus, migs)
    assert chosen == {
        "by index": "1",
        "by UUID": "GPU-bbbb2222-0000-0000-0000-000000000000",
        "all": "0,1",
        "in reverse order": "1,0",
        "a MIG device": "MIG-cccc3333-0000-0000-0000-000000000000",
        "none (empty)": "",
    }
    within = devices.choices("1", gpus, [])  # a scheduler has given this job one of both
    assert (within["by index"], within["in reverse order"]) == ("1", None)
    assert set(devices.choices(None, {}, []).values()) == {None, ""}


def test_a_rank_that_names_another_device_does_not_hold() -> None:
    by_torch = {"name": "H100", "uuid": "bbbb2222", "initialised_by_hooks": False}
    ended, known = Ended(0, "", 1.0, by_torch), ["GPU-bbbb2222"]
    right = {"device": "H100", "device_uuid": "bbbb2222"}
    assert not missed(devices.figures("x", ended, right, known))
    wrong = {"device": "H100", "device_uuid": "aaaa1111"}
    assert missed(devices.figures("x", ended, wrong, ["GPU-aaaa1111"])) == {
        "x: the rank's device",
        "x: nvidia-smi knows the UUID",
    }
    assert missed(devices.figures("x", Ended(1, "no", 1.0), None, [])) == {"x: the job"}


class Refused(Exception):
    pass


def pretended_nvml(num_links: int) -> Any:
    """NVML of a device with some links, of which the last is down."""

    def state(device: object, link: int) -> int:
        if link >= num_links:
            raise Refused("not supported")
        return int(link < num_links - 1)

    return SimpleNamespace(
        NVML_NVLINK_MAX_LINKS=6,
        NVMLError=Refused,
        NVML_NVLINK_ERROR_DL_REPLAY=0,
        nvmlDeviceGetNvLinkState=state,
        nvmlDeviceGetNvLinkErrorCounter=lambda device, link, kind: 10 + link,
    )


def test_errors_of_links_that_are_up_are_added() -> None:
    assert nvml.nvlink_errors(pretended_nvml(3), None) == 10 + 11
    with pytest.raises(Refused):
        nvml.nvlink_errors(pretended_nvml(0), None)


def test_what_a_device_does_not_answer_is_named_and_left_out() -> None:
    shown: list[Figure] = []
    links = lambda: nvml.nvlink_errors(pretended_nvml(0), None)  # noqa: E731
    left = nvml.supported({"power": int, "NVLink errors": links}, Refused, shown.append)
    assert list(left) == ["power"]
    assert [(figure.name, figure.value) for figure in shown] == [
        ("NVLink errors", "not here: not supported")
    ]
    figures = nvml.reading_figures(left, 3)
    assert [figure.name for figure in figures] == [
        "a reading of 1 queries, wall time",
        "a reading of 1 queries, CPU time",
        "power, wall time",
    ]


def test_a_thread_reads_until_the_block_ends() -> None:
    reads: list[int] = []
    with nvml.read_every_second({"one": lambda: reads.append(1)}) as at_s:
        pass
    assert len(reads) == len(at_s) == 1


def test_slowing_is_measured_in_pairs_next_to_noise() -> None:
    times = {"without": [10.0, 20.0], "without again": [10.0, 20.0], "with": [11.0, 22.0]}
    _, noise, added = nvml.slowing_figures("x", times)
    assert noise.value == 0
    assert round(float(added.value), 6) == 10
