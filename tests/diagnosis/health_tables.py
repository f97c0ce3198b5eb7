"""Answers of tensor_health and attention_health built by hand, one series for each place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tests.diagnosis.answer_schema import answer_schema

NUM_LOOKS = 30
EVERY = 10
"""Steps from one look to the next."""

TENSORS = answer_schema(
    "step BIGINT, layer INTEGER, tensor VARCHAR, name VARCHAR, rms DOUBLE, zero_ratio DOUBLE, "
    "update_ratio DOUBLE"
)
HEADS = answer_schema(
    "step BIGINT, layer INTEGER, head INTEGER, name VARCHAR, max_logit DOUBLE, entropy DOUBLE"
)


def noisy(level: float, seed: int, spread: float = 0.1, num: int = NUM_LOOKS) -> Any:
    """A level with noise."""
    return level * np.exp(spread * np.random.default_rng(seed).standard_normal(num))


def tensor_rows(
    layer: int, tensor: str, name: str = "mlp", **columns: Sequence[float | None]
) -> list[dict[str, Any]]:
    """A row a look; `columns` are series."""
    place = {"layer": layer, "tensor": tensor, "name": f"layers.{layer}.{name}"}
    return _rows(place, {"rms": 1.0, "zero_ratio": 0.0, "update_ratio": None}, columns)


def head_rows(layer: int, head: int, **columns: Sequence[float | None]) -> list[dict[str, Any]]:
    """A row a look; `columns` are series."""
    place = {"layer": layer, "head": head, "name": f"layers.{layer}.attention"}
    return _rows(place, {"max_logit": None, "entropy": None}, columns)


def _rows(place: dict[str, Any], usual: dict[str, Any], columns: dict[str, Any]) -> Any:
    num = max(len(series) for series in columns.values())
    return [
        {**place, **usual, "step": EVERY * at}
        | {
            name: None if series[at] is None else float(series[at])
            for name, series in columns.items()
        }
        for at in range(num)
    ]


def tables(
    tensors: Iterable[dict[str, Any]] = (),
    heads: Iterable[dict[str, Any]] = (),
    lr: Sequence[float | None] = (),
) -> dict[str, pa.Table]:
    """Answers of the questions that detectors of a model's health read."""
    return {
        "tensor_health": pa.Table.from_pylist(list(tensors), schema=TENSORS),
        "attention_health": pa.Table.from_pylist(list(heads), schema=HEADS),
        "steps": pa.table(
            {
                "step": pa.array(range(len(lr)), pa.int64()),
                "lr": pa.array(lr, pa.float64()),
            }
        ),
    }
