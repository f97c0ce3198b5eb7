"""Metrics, noise and the bytes of colours."""

from __future__ import annotations

import numpy as np
import pytest

from app.views.ranks.scales import (
    IN_NOISE,
    METRICS,
    NO_DATA,
    NOISE_MADS,
    codes,
    legend,
    metric_of,
    noise_factor,
)
from ingest.errors import UserError
from ingest.query.saved_queries import saved_queries


def code(deviation, noise=0.1, full=0.5):
    return int(codes(np.float32([deviation]), np.float32([noise]), full)[0])


def test_within_noise_is_grey_and_beyond_is_not():
    assert code(0.09) == IN_NOISE
    assert code(-0.09) == IN_NOISE
    assert code(0.11) > IN_NOISE
    assert code(-0.11) > IN_NOISE


def test_what_was_not_recorded_is_never_a_value():
    assert code(np.nan) == NO_DATA
    assert code(0.0) == IN_NOISE


def test_unknown_noise_colours_nothing():
    assert code(0.4, noise=np.nan) == IN_NOISE


def test_the_greatest_byte_is_the_greatest_deviation():
    rows = [code(d, noise=0.01) for d in (0.0, 0.05, -0.1, 0.2, -0.3, 0.5)]
    assert rows == sorted(rows)
    assert [value % 2 for value in rows[1:]] == [1, 0, 1, 0, 1]  # odd: more than the peers


def test_beyond_the_scale_is_the_strongest():
    assert code(7.0) == code(0.5) == 255
    assert code(-0.5) == 254


def test_noise_is_3_mad_unless_so_many_are_shown_that_some_lie_further_by_chance():
    assert noise_factor(8, cells_per_value=20) == NOISE_MADS
    assert noise_factor(12_288, cells_per_value=20) == NOISE_MADS
    normal = np.random.default_rng(1).normal(size=1_000_000)
    mad = np.median(np.abs(normal - np.median(normal)))
    beyond = np.abs(normal) > noise_factor(normal.size) * mad
    assert (np.abs(normal) > NOISE_MADS * mad).mean() > 0.04
    assert beyond.sum() <= 2


def test_metrics_are_complete():
    question = saved_queries()["rank_cells"]
    documented = next(p for p in question.parameters if p.name == "metric").doc
    for metric in METRICS.values():
        assert metric.meaning.endswith(".")
        assert metric.asks in documented
        assert metric.question in saved_queries()


def test_an_unknown_metric_is_a_sentence():
    assert metric_of(None).name == "slowdown"
    with pytest.raises(UserError, match="there is no metric 'x'; choose one of slowdown"):
        metric_of("x")


def test_the_legend_is_in_the_metrics_unit():
    slowdown = legend(METRICS["slowdown"], 800.0, 0.03)
    assert (slowdown["centre"], slowdown["full"], slowdown["noise"]) == (1.0, 0.5, 0.03)
    wait = legend(METRICS["wait"], 800.0, 0.03)
    assert (wait["centre"], wait["full"], wait["noise"]) == (None, 200.0, 24.0)
    assert legend(METRICS["wait"], 800.0, float("nan"))["noise"] is None
