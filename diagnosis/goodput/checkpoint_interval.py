"""How often a job should save: what each interval would leave of its time, from its own numbers.

With interruptions at random, at a mean time M apart, a save that costs C, and R lost at each
interruption besides repeated steps, a job that saves after each t of work takes for it

    E(t) = M exp(R / M) (exp((t + C) / M) - 1)

(Daly 2006, A higher order estimate of the optimum checkpoint interval for restart dumps), so that
t / E(t) of its time is training. That is greatest where (1 - t / M) exp((t + C) / M) = 1, near
Young's sqrt(2 C M). Assumes that an interruption is as likely at any time, also while saving and
restarting, and that the last save is good.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, expm1, isfinite, lgamma, log, sqrt

from diagnosis.goodput.ledger import Ledger

FEWEST = 3
"""Interruptions below which no interval is recommended, only a range given."""

CONFIDENCE = 0.95
_HALVINGS = 200
_POINTS = 48
_WIDEST = 30.0
"""The curve goes from the best interval divided by this to that times this."""


@dataclass(frozen=True)
class Advice:
    """`mtbf_s`: mean time between interruptions, None without any; `low_s`, `high_s`: its interval
    with CONFIDENCE, `high_s` None: no upper limit. `best_s`: work between saves that leaves most,
    `best_low_s` and `best_high_s` at the ends of the interval. `interval_s`: the same of today's
    saves. `now_share`, `best_share`: what is left of the time with today's work between saves and
    the best. `curve`: (interval s, share, share at `low_s`, share at `high_s`), of None where
    unknown. `why_not`: why nothing is recommended; ''.
    """

    num_interruptions: int
    at_risk_s: float
    mtbf_s: float | None
    low_s: float
    high_s: float | None
    save_s: float | None
    restart_s: float | None
    interval_s: float | None
    young_s: float | None
    best_s: float | None
    best_low_s: float | None
    best_high_s: float | None
    now_share: float | None
    best_share: float | None
    curve: tuple[tuple[float | None, ...], ...]
    why_not: str


def advice_of(ledger: Ledger) -> Advice | None:
    """What a job's own failures and saves say; None where its times are unknown."""
    if not ledger.at_risk_s:
        return None
    number, risk_s = len(ledger.interrupted), ledger.at_risk_s
    low_s, high_s = mtbf_interval(number, risk_s)
    mtbf_s = risk_s / number if number else None
    save_s, restart_s = ledger.save_s, ledger.restart_s or 0.0
    # from the end of one save to the end of the next, so the save itself is in it
    work_s = max(ledger.interval_s - (save_s or 0.0), 0.0) if ledger.interval_s else None

    def best(at_s: float | None) -> float | None:
        return best_interval(save_s, at_s) if save_s and at_s else None

    def share(interval_s: float | None) -> float | None:
        if not (interval_s and save_s and mtbf_s):
            return None
        return effective_share(interval_s, save_s, restart_s, mtbf_s)

    bests = [best(mtbf_s), best(low_s), best(high_s)]
    return Advice(
        num_interruptions=number,
        at_risk_s=risk_s,
        mtbf_s=mtbf_s,
        low_s=low_s,
        high_s=high_s,
        save_s=save_s,
        restart_s=ledger.restart_s,
        interval_s=work_s,
        young_s=sqrt(2 * save_s * mtbf_s) if save_s and mtbf_s else None,
        best_s=bests[0],
        best_low_s=bests[1],
        best_high_s=bests[2],
        now_share=share(work_s),
        best_share=share(bests[0]),
        curve=_curve(bests, save_s, restart_s, (mtbf_s, low_s, high_s)),
        why_not=_why_not(number, bool(save_s)),
    )


def effective_share(interval_s: float, save_s: float, restart_s: float, mtbf_s: float) -> float:
    """Share of the time that is training, 0 to 1: t / E(t) of the module's docstring."""
    exponent = (interval_s + save_s) / mtbf_s
    if exponent + restart_s / mtbf_s > 700:  # exp overflows
        return 0.0
    return interval_s / (mtbf_s * exp(restart_s / mtbf_s) * expm1(exponent))


def best_interval(save_s: float, mtbf_s: float) -> float:
    """Work between saves that leaves most of the time, s; it does not depend on the restart."""
    low, high = 0.0, mtbf_s
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        # log of (1 - t / M) exp((t + C) / M), which falls with t
        value = log(1 - middle / mtbf_s) + (middle + save_s) / mtbf_s if middle < mtbf_s else -1.0
        low, high = (middle, high) if value > 0 else (low, middle)
    return (low + high) / 2


def mtbf_interval(number: int, risk_s: float) -> tuple[float, float | None]:
    """Interval of the mean time between interruptions, of which `number` came in `risk_s`.

    Exact for events at random (Garwood 1936); without any, the lower limit alone, one-sided.
    """
    if number == 0:
        return risk_s / -log(1 - CONFIDENCE), None
    tail = (1 - CONFIDENCE) / 2
    most = _mean_with(lambda mean: _at_most(number, mean) - tail)
    least = _mean_with(lambda mean: _at_most(number - 1, mean) - (1 - tail))
    return risk_s / most, risk_s / least


def _at_most(number: int, mean: float) -> float:
    """Probability of at most `number` events where `mean` are expected."""
    if mean <= 0:
        return 1.0
    return sum(exp(k * log(mean) - mean - lgamma(k + 1)) for k in range(number + 1))


def _mean_with(falling: Callable[[float], float]) -> float:
    """Where a falling function of a mean crosses 0."""
    low, high = 0.0, 1.0
    while falling(high) > 0:
        high *= 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return (low + high) / 2


def _curve(
    bests: list[float | None],
    save_s: float | None,
    restart_s: float,
    at: tuple[float | None, float, float | None],
) -> tuple[tuple[float | None, ...], ...]:
    """Points at equal ratios around the best interval of the shortest and the longest mean time."""
    known = [best for best in bests if best]
    if not known or save_s is None:
        return ()
    least, most = min(known) / _WIDEST, max(known) * _WIDEST
    points = [least * (most / least) ** (n / (_POINTS - 1)) for n in range(_POINTS)]
    return tuple(
        (t, *(effective_share(t, save_s, restart_s, mtbf) if mtbf else None for mtbf in at))
        for t in points
        if isfinite(t)
    )


def _why_not(number: int, has_saves: bool) -> str:
    if not has_saves:
        return "No save was recorded, so what a save costs is unknown."
    if number == 0:
        return "The run was not interrupted yet, so only a least mean time between is known."
    if number < FEWEST:
        times = "once" if number == 1 else "twice"
        return f"The run was interrupted only {times}: the range is wide."
    return ""
