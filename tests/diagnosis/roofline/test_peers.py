"""Kernels slower on one rank than on its peers: named where that is clear, else nobody."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from diagnosis.roofline.peers import Comparison, slow_kernels
from diagnosis.roofline.text import peers_text
from tests.diagnosis.roofline.kernel_rows import H100, kernel_row, mm_text


def _compared(rows: list[dict[str, Any]]) -> Comparison:
    return slow_kernels(rows, dict.fromkeys(range(100), H100))


def _ranks(*medians_us: float, **changed: Any) -> list[dict[str, Any]]:
    return [kernel_row(rank, us, **changed) for rank, us in enumerate(medians_us)]


def _others(num: int, *factors: float) -> list[dict[str, Any]]:
    """As many other kernels, which take 300 us times the factor of each rank."""
    medians = [300 * factor for factor in factors]
    return [row for at in range(num) for row in _ranks(*medians, name=f"other {at}")]


def test_a_rank_with_a_slow_kernel_is_named() -> None:
    found = _compared(_ranks(200, 201, 260, 199) + _others(3, 1, 1, 1, 1))
    (rank,) = found.ranks
    (kernel,) = rank.kernels
    assert (found.num_compared, found.num_ranks, rank.rank, rank.is_device) == (4, 4, 2, False)
    assert (kernel.peers_us, kernel.median_us, kernel.calls) == (200, 260, 5)
    assert kernel.excess == pytest.approx(0.3)
    assert kernel.lost_ms == rank.lost_ms == pytest.approx(0.3)
    text = peers_text(found)
    assert text.startswith(
        "Rank 2: mm 4096 x 4096, 4096 x 4096 takes 260 \u00b5s, 30 % more than the 200 \u00b5s of"
    )
    assert text.endswith("costs 0.30 ms a step. 4 kernels on 4 ranks compared.")


def test_a_rank_whose_kernels_are_all_slow_has_a_slow_device() -> None:
    found = _compared(_others(5, 1, 1, 1, 1.3))
    (rank,) = found.ranks
    assert (rank.rank, rank.is_device, rank.kernels, rank.num_compared) == (3, True, (), 5)
    assert rank.device_excess == pytest.approx(0.3)
    assert rank.lost_ms == pytest.approx(5 * 5 * 0.09)
    assert peers_text(found).startswith(
        "Rank 3: its device is slow, the middle of its 5 compared kernels takes 30 % more than on"
    )


def test_a_slow_device_may_have_a_kernel_that_is_slower_still() -> None:
    found = _compared(_others(5, 1, 1, 1.2, 1) + _ranks(200, 200, 400, 200))
    (rank,) = found.ranks
    assert (rank.is_device, [kernel.kernel for kernel in rank.kernels]) == (True, ["gemm"])
    assert "its device is slow" in peers_text(found)
    assert "takes 400 \u00b5s" in peers_text(found)


def test_a_device_at_the_edge_of_healthy_ones_does_not_make_its_kernels_slow() -> None:
    rows = _others(5, 1, 1.02, 1.08, 0.98, 1) + _ranks(200, 204, 222, 196, 200)
    assert _compared(rows).ranks == ()


def test_with_few_kernels_it_is_not_known_whether_it_is_the_device() -> None:
    found = _compared(_ranks(200, 200, 200, 260))
    assert (found.ranks[0].is_device, found.ranks[0].device_excess) == (False, None)
    assert "Too few kernels compare to tell whether it is its device." in peers_text(found)


def test_several_slow_ranks_do_not_hide_each_other() -> None:
    found = _compared(_ranks(200, 300, 201, 290, 199, 200, 202, 200))
    assert [rank.rank for rank in found.ranks] == [1, 3]


@pytest.mark.parametrize(
    "rows",
    [
        _ranks(200, 200, 260),  # two peers
        _ranks(200, 260, 260, 200),  # no majority
        _ranks(200, 200, 200, 215),  # less than devices of one model differ by
        _ranks(200, 230, 170, 260, 210),  # peers differ as much
        _ranks(200, 200, 200, 260, calls=7),  # too few calls
        _ranks(200, 200, 200, 260, alone_calls=7),  # too few without communication
        [*_ranks(200, 200, 200), kernel_row(3, 260, calls=12)],  # more calls
        [*_ranks(200, 200, 200), kernel_row(3, 260, low_us=150.0)],  # some calls only
        [*_ranks(200, 200, 200, 200, 200), kernel_row(5, 260, name="another kernel")],
        [*_ranks(200, 200, 200), kernel_row(3, 260, operation=mm_text(8192))],
        _ranks(200, 200, 200, 260, operation=mm_text(op="aten::index_select")),
        _ranks(200, 200, 200, 260, operation=None),
        [],
    ],
    ids=range(13),
)
def test_nobody_is_named_where_it_is_not_clear(rows: list[dict[str, Any]]) -> None:
    found = _compared(rows)
    assert found.ranks == ()
    assert peers_text(found).startswith("No ")


def test_a_slower_model_of_device_is_not_compared_with_others() -> None:
    roofs = dict.fromkeys(range(4), H100) | {3: replace(H100, device="NVIDIA A100")}
    assert slow_kernels(_ranks(200, 200, 200, 400), roofs).num_compared == 0


def test_healthy_ranks_with_noise_are_not_named() -> None:
    """400 kernels on 8 ranks; calls vary by 5 %, and devices by 2 %."""
    random = np.random.default_rng(1)
    speed_R = 1 + 0.02 * random.standard_normal(8)
    rows = []
    for number in range(400):
        for rank, speed in enumerate(speed_R):
            us = 200 * speed * np.exp(0.05 * random.standard_normal(12))
            low, middle, high = np.quantile(us, [0.1, 0.5, 0.9])
            rows.append(
                kernel_row(rank, middle, low_us=low, high_us=high, calls=12, name=f"k{number}")
            )
    found = _compared(rows)
    assert (found.num_compared, found.ranks) == (400, ())
