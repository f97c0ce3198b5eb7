"""Formulas against the examples of nccl-tests' PERFORMANCE.md."""

from __future__ import annotations

import pytest

from trace_hooks.selftest.formulas import bus_factor, bus_gb_s, copy_gb_s, matmul_tflop_s


@pytest.mark.parametrize(
    ("op", "ranks", "factor"),
    [
        ("all_reduce", 2, 1.0),
        ("all_reduce", 8, 1.75),
        ("all_gather", 8, 0.875),
        ("reduce_scatter", 4, 0.75),
        ("all_to_all", 4, 0.75),
        ("broadcast", 16, 1.0),
        ("reduce", 16, 1.0),
        ("send", 2, 1.0),
    ],
)
def test_factors(op: str, ranks: int, factor: float) -> None:
    assert bus_factor(op, ranks) == factor


def test_rates() -> None:
    assert bus_gb_s("all_reduce", 1_000_000_000, 0.5, 8) == 3.5
    assert copy_gb_s(1 << 30, 1e-3) == pytest.approx(2147.483648)
    assert matmul_tflop_s(8192, 2e-3) == pytest.approx(549.755813888)


def test_what_has_no_factor() -> None:
    with pytest.raises(ValueError, match="'gather'"):
        bus_factor("gather", 4)
    with pytest.raises(ValueError, match="at least 2"):
        bus_factor("all_reduce", 1)
