"""Operations against the roofline: speed, bound, and what the least time would save."""

from __future__ import annotations

from dataclasses import replace

import pytest

from diagnosis.roofline.operations import operations_of
from diagnosis.roofline.roofs import NO_ROOFS, Roofs, precision_of
from diagnosis.roofline.text import could_save_text, notes_of
from tests.diagnosis.roofline.kernel_rows import H100, kernel_row, mm_text


def test_a_product_by_hand() -> None:
    """4096^3: 137.4 GFLOP and 100.7 MB; at least 139 us on an H100, for its FLOPs."""
    (one,) = operations_of([kernel_row()], {0: H100})
    flops, num_bytes = 2 * 4096**3, 3 * 4096**2 * 2
    assert (one.flops, one.num_bytes) == (flops, num_bytes)
    assert one.tflops_per_s == pytest.approx(flops / 200e-6 / 1e12)
    assert one.gb_per_s == pytest.approx(num_bytes / 200e-6 / 1e9)
    assert one.intensity == pytest.approx(1365.3, abs=0.1)
    assert (one.bound, one.precision, one.peak_tflops) == ("compute", "half", 989)
    assert one.roof_share == pytest.approx(flops / 989e12 / 200e-6)
    assert (one.calls, one.ms, one.call_us) == (5, 1.0, 200.0)
    assert one.lost_ms == pytest.approx(5 * (0.2 - 1e3 * flops / 989e12))


def test_a_thin_product_is_bound_by_memory() -> None:
    (one,) = operations_of([kernel_row(operation=mm_text(1), median_us=20.0)], {0: H100})
    assert one.bound == "memory"
    assert one.roof_share == pytest.approx(one.num_bytes / 3350e9 / 20e-6)


def test_a_call_of_several_kernels_takes_as_long_as_all_of_them() -> None:
    rows = [kernel_row(), kernel_row(part=1, name="reduce", median_us=50.0)]
    (one,) = operations_of(rows, {0: H100})
    assert (one.calls, one.call_us, one.kernels) == (5, 250.0, ("gemm", "reduce"))


def test_times_are_means_over_ranks() -> None:
    rows = [kernel_row(0), kernel_row(1, 400.0)]
    (one,) = operations_of(rows, {0: H100, 1: H100})
    assert (one.calls, one.ms, one.call_us) == (5, 1.5, 300.0)
    alone = operations_of([kernel_row(0), kernel_row(1, operation=None)], {0: H100, 1: H100})
    assert alone[0].ms == 0.5  # rank 1 has none of it


@pytest.mark.parametrize(
    "roofs",
    [
        Roofs("", dict.fromkeys(("half", "tf32", "float32", "float8")), None),
        replace(H100, gb_per_s=None),
        replace(H100, tflops={}),
    ],
)
def test_without_a_roof_there_is_no_share_of_it(roofs: Roofs) -> None:
    (one,) = operations_of([kernel_row()], {0: roofs})
    assert (one.bound, one.roof_share, one.lost_ms) == (None, None, None)
    assert one.tflops_per_s == pytest.approx(687.2, abs=0.1)
    assert any("is not known" in note for note in notes_of([one], [roofs], 1.0))


def test_peaks_of_devices_of_two_kinds_are_known() -> None:
    other = replace(H100, device="NVIDIA A100", tflops={**H100.tflops, "half": 312.0})
    (one,) = operations_of([kernel_row(0), kernel_row(1, 600.0)], {0: H100, 1: other})
    least_us = [2 * 4096**3 / peak / 1e6 for peak in (989.0, 312.0)]
    assert one.roof_share == pytest.approx(sum(least_us) / 800.0)
    assert not [note for note in notes_of([one], [H100, other], 1.0) if "is not known" in note]


def test_a_peak_that_is_given_counts_for_all_types() -> None:
    roofs = replace(H100, given=1000.0)
    (one,) = operations_of([kernel_row(operation=mm_text(dtype="double"))], {0: roofs})
    assert one.roof_share == pytest.approx(2 * 4096**3 / 1e15 / 200e-6)


def test_float32_is_tf32_where_the_kernel_says_so_or_is_too_fast_for_float32() -> None:
    assert precision_of("float32", ["ampere_sgemm_128x64_nn"]) == "float32"
    assert precision_of("float32", ["sm80_xmma_gemm_f32f32_tf32f32_f32_nn"]) == "tf32"
    assert precision_of("float8_e4m3fn", ["nvjet"]) == "float8"
    assert precision_of("int64", []) == ""
    text = mm_text(dtype="float")
    slow, fast = (
        operations_of([kernel_row(operation=text, median_us=us)], {0: H100})[0]
        for us in (2500.0, 500.0)  # 55 and 275 TFLOP/s, of 67 and 494
    )
    assert (slow.precision, fast.precision) == ("float32", "tf32")


def test_ranks_with_different_devices_have_each_its_own_least_time() -> None:
    half = replace(H100, device="half of it", tflops={"half": 989 / 2}, gb_per_s=3350 / 2)
    (one,) = operations_of([kernel_row(0), kernel_row(1)], {0: H100, 1: half})
    whole_us = 1e6 * 2 * 4096**3 / 989e12
    assert one.roof_share == pytest.approx(3 * whole_us / 400)
    assert one.peak_tflops is None


def test_sentences_name_what_would_save_most_and_what_cannot_be() -> None:
    rows = [kernel_row(), kernel_row(operation=mm_text(8192), median_us=900.0)]
    found = operations_of(rows, {0: H100})
    text = could_save_text(found, 5.5)
    assert "above all mm 8192 x 4096, 4096 x 4096 3.11 ms (31 % of its roofline), mm 4096" in text
    (impossible,) = operations_of([kernel_row(median_us=20.0)], {0: H100})
    assert any("faster than the peak" in note for note in notes_of([impossible], [H100], 1.0))
    assert could_save_text((), 0.0) == ""


def test_a_rank_that_left_no_file_about_itself_has_no_roofs() -> None:
    (one,) = operations_of([kernel_row()], {0: NO_ROOFS})
    assert (one.calls, one.roof_share, one.peak_tflops) == (5, None, None)
