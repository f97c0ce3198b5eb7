"""From the peak of the devices to the measured MFU: the parts add up."""

from __future__ import annotations

import pyarrow as pa
import pytest

from diagnosis.mfu.step_times import FLOPS_UNKNOWN, PEAK_UNKNOWN, QUESTIONS, step_times
from diagnosis.mfu.waterfall import TOO_MUCH, waterfall
from ingest.run import open_run
from tests.diagnosis.mfu.step_times_made import times_of
from tests.mfu_runs import PARTS_MS, PEAK_TFLOPS, mfu_run


def asked(folder, **peak):
    with open_run(folder) as run:
        return {name: run.ask(name, **(peak if name == "throughput" else {})) for name in QUESTIONS}


def test_mfu_and_parts_of_a_run_add_up_to_the_peak(tmp_path):
    tables = asked(mfu_run(tmp_path / "run"), peak_tflops=PEAK_TFLOPS)
    fall = waterfall(step_times(tables))
    shares = {bar.name: bar.share for bar in fall.bars}
    expected = {name: sum(ms) / 2 / 100 for name, ms in PARTS_MS.items()}
    assert fall.mfu == pytest.approx(0.4)
    assert shares == pytest.approx(expected | {"compute": 0.77 - 0.4})
    assert fall.total == pytest.approx(1)
    assert fall.bars[0].title == "Kernels below peak"
    assert (fall.tflop_per_step, fall.peak_tflops) == pytest.approx((0.08, 1.0))


def test_without_a_peak_the_parts_are_shares_of_the_time(tmp_path):
    fall = waterfall(step_times(asked(mfu_run(tmp_path / "run"))))
    assert (fall.mfu, fall.why_no_mfu) == (None, PEAK_UNKNOWN)
    assert fall.bars[0].title == "Compute"
    assert fall.total == pytest.approx(1)


def test_without_flops_there_is_no_mfu(tmp_path):
    tables = asked(mfu_run(tmp_path / "run", flops=None), peak_tflops=PEAK_TFLOPS)
    fall = waterfall(step_times(tables))
    assert (fall.mfu, fall.why_no_mfu) == (None, FLOPS_UNKNOWN)


def test_more_flops_than_compute_at_peak_allows_are_no_mfu():
    fall = waterfall(times_of(compute=50.0, data=50.0, tflop=0.12, peak=1.0))
    assert (fall.mfu, fall.why_no_mfu) == (None, TOO_MUCH)
    assert fall.total == pytest.approx(1)


def test_a_bar_leads_to_the_step_in_which_it_is_longest():
    data_ms = [5.0] * 20
    data_ms[7] = 30.0
    (_, data) = waterfall(times_of(first_step=100, compute=50.0, data=data_ms)).bars
    assert (data.name, data.worst_step) == ("data", 107)


def test_no_finished_step_has_no_waterfall():
    assert waterfall(times_of(num_steps=0)) is None


def test_parts_that_do_not_add_up_are_refused(tmp_path):
    tables = asked(mfu_run(tmp_path / "run"))
    times = tables["device_time"]
    at = times.column_names.index("data_ms")
    tables["device_time"] = times.set_column(at, "data_ms", pa.array([5.0, 9.0]))
    with pytest.raises(ValueError, match=r"miss their time by up to 4\.0 %"):
        step_times(tables)
