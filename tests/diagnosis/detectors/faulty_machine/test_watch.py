"""The state of faulty_machine: second by second as at once, medians, heights and pauses."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.detectors.faulty_machine.heights import CERTAIN_HEIGHT, LEAST_HEIGHT, Heights, holm
from diagnosis.detectors.faulty_machine.pauses import Pauses
from diagnosis.detectors.faulty_machine.residuals import medians, residuals_of
from diagnosis.detectors.faulty_machine.scales import least_sigmas
from diagnosis.detectors.faulty_machine.series import groups_of, series_of
from diagnosis.detectors.faulty_machine.together import Together
from diagnosis.detectors.faulty_machine.watch import MachineWatch
from tests.diagnosis.machine_tables import METRICS, machine_tables, steady


def test_second_by_second_gives_the_same_as_at_once() -> None:
    values_MTN = steady(6, 480)
    values_MTN[2, 250:, 4] *= 0.7
    names = [f"m{index}" for index in range(6)]
    at_once, by_second = MachineWatch(names, METRICS), MachineWatch(names, METRICS)
    at_once.push(values_MTN)
    for second in range(480):
        by_second.push(values_MTN[:, second : second + 1])
    assert [alarm.machine for alarm in at_once.alarms] == ["m4"]
    assert by_second.alarms == at_once.alarms


def test_an_alarm_knows_no_later_seconds() -> None:
    values_MTN = steady(6, 480)
    values_MTN[2, 250:, 4] *= 0.7
    watch = MachineWatch([f"m{index}" for index in range(6)], METRICS)
    watch.push(values_MTN)
    alarm_s = watch.alarms[0].alarm_s
    shorter = MachineWatch([f"m{index}" for index in range(6)], METRICS)
    shorter.push(values_MTN[:, :alarm_s])
    assert shorter.alarms == watch.alarms
    assert 250 + 60 < alarm_s < 250 + 75


@pytest.mark.parametrize("num_machines", [4, 5, 7, 8])
def test_a_machine_is_no_part_of_its_own_median(num_machines: int) -> None:
    values_MTN = np.random.default_rng(2).random((2, 5, num_machines)).astype(np.float32)
    values_MTN[0, 1, 2] = np.nan
    made_MTN = medians(values_MTN)
    for machine in range(num_machines):
        others_MTN = np.delete(values_MTN, machine, axis=2)
        if machine != 2:
            assert np.allclose(made_MTN[..., machine], np.nanmedian(others_MTN, axis=2))


def test_the_median_of_many_is_that_of_all() -> None:
    values_MTN = np.random.default_rng(2).random((2, 5, 100)).astype(np.float32)
    values_MTN[0, 1, :30] = np.nan
    assert np.allclose(medians(values_MTN)[..., 0], np.nanmedian(values_MTN, axis=2))


def test_residuals_are_means_over_what_is_known() -> None:
    values_MTN = np.zeros((1, 3, 4), np.float32)
    values_MTN[0, :, 1] = [3.0, np.nan, 6.0]
    groups = groups_of([None] * 4)
    residuals = residuals_of(values_MTN, groups, np.ones((1, 4), np.bool_))
    assert residuals.own_MBN[0, 0].tolist() == [0.0, 4.5, 0.0, 0.0]
    assert residuals.absent_BN[0].tolist() == pytest.approx([0.0, 1 / 3, 0.0, 0.0])
    with pytest.raises(ValueError, match="multiple of 3"):
        residuals_of(values_MTN[:, :2], groups, np.ones((1, 4), np.bool_))


def test_roles_of_few_machines_are_not_told_apart() -> None:
    assert [group.tolist() for group in groups_of([0, 0, 1, 1])] == [[0, 1, 2, 3]]
    by_role = groups_of([0] * 4 + [1] * 5)
    assert sorted(group.size for group in by_role) == [4, 5]


def test_holm_allows_more_than_bonferroni_and_no_more_than_that() -> None:
    p_RN = np.array([[0.01, 0.02], [0.6, 0.02]])
    assert holm(p_RN, 0.05).tolist() == [[True, False], [False, False]]
    assert holm(np.array([[0.01, 0.016], [0.6, 0.02]]), 0.05).tolist() == [
        [True, True],
        [False, True],
    ]


def test_limits_follow_how_high_healthy_sums_get() -> None:
    heights, random = Heights(2, 30.0), np.random.default_rng(4)
    everyone = np.ones(50, np.bool_)
    for _ in range(40):
        both = np.stack([random.exponential(0.5, 50), random.exponential(5.0, 50)])
        heights.add(both.astype(np.float32), everyone)
    calm, noisy = heights.limit_R
    assert LEAST_HEIGHT <= calm < noisy <= CERTAIN_HEIGHT
    p_RN = heights.p_of(np.array([[1.0, 40.0], [1.0, 40.0]], np.float32))
    assert p_RN[0, 1] < p_RN[1, 1] < p_RN[1, 0]


def test_what_is_out_of_proportion_stands_out_of_all_metrics_together() -> None:
    """All metrics of a machine go up and down together; of one they do not, by as little."""
    random = np.random.default_rng(5)
    together, everyone_N = Together(6, 12, window=10), np.ones(12, np.bool_)
    for at in range(200):
        common_N = random.standard_normal(12)
        rest_N = together.push(np.asarray(common_N + 0.1 * random.standard_normal((6, 12))))
        if at % 10 == 9:
            together.learn(everyone_N)
    for _ in range(10):
        deviation_MN = np.tile(random.standard_normal(12), (6, 1))
        deviation_MN[:3, 4] += 1.0
        rest_N = together.push(deviation_MN)
    assert rest_N.argmax() == 4
    assert rest_N[4] > 5 * np.sort(rest_N)[-2]


def test_a_small_sigma_follows_from_the_unit() -> None:
    names = ("gpu_tensor_active_ratio", "gpu_utilization_percent (least)", "cpu_x_seconds_total")
    assert least_sigmas(names).tolist() == pytest.approx([0.01, 1.0, 0.5])
    assert least_sigmas(("pressure_cpu_some_seconds_total",)).tolist() == pytest.approx([0.01])
    assert least_sigmas(("net_received_bytes_total", "oom_kills_total", "x")).tolist() == [
        1e5, 1.0, 0.0,
    ]  # fmt: skip


def test_pauses_of_the_job() -> None:
    """A step that begins and ends is none; what lasts has the bin in which it began."""
    pauses, since = Pauses(3.0), []
    for at in range(60):
        level = 0.7 if at == 30 else 0.2 if 40 <= at < 50 else 1.0
        pauses.push(np.full((3, 1), level, np.float32), at)
        since.append(pauses.since)
    assert set(since[:40]) == {-1}
    assert abs(since[48] - 40) <= 2
    assert since[-1] == -1


def test_rare_samples_are_held_and_increases_are_spread() -> None:
    values_MTN = steady(4, 300)
    for metric in (2, 3):
        values_MTN[metric, :] = np.nan
        values_MTN[metric, 59::60] = np.arange(5)[:, None]
    series = series_of(machine_tables(values_MTN)["machine_seconds"])
    assert series is not None
    clock = series.values_MTN[series.metrics.index("gpu_sm_clock_mhz"), :, 0]
    sent = series.values_MTN[series.metrics.index("net_transmitted_bytes_total"), :, 0]
    assert np.isnan(clock[0])
    assert (clock[60], clock[118], clock[119]) == (0.0, 0.0, 1.0)
    assert (sent[0], sent[60], sent[119], sent[120]) == (0.0, 1.0, 1.0, 2.0)
