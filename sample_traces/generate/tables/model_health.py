"""Statistics of a synthetic job's model: what healthy training shows, and what its faults do to it.

Shapes: S step, L layer of the whole model, H head. The first rank of each pipeline stage records
its layers whole, as in a job without shards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sample_traces.generate.durations import Float
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.simulation.effects import active_steps

LAYERS_PER_STAGE, NUM_HEADS = 2, 4
PEAK_LR, WEIGHT_RMS = 3e-4, 0.02

_STREAM = 0x5EED
"""Keeps these draws apart from those of durations."""

OUTPUTS = {"residual": "", "attention": ".attention", "mlp": ".mlp"}
GROUPS = ("attention", "mlp")

Random = np.random.Generator


@dataclass
class ModelHealth:
    """Statistics of all layers in all completed steps.

    Of outputs by name, of parameters by group (GROUPS), each L x S; of heads L x H x S.
    """

    lr_S: Float
    output_rms: dict[str, Float]
    output_zero: dict[str, Float]
    gradient_rms: dict[str, Float]
    gradient_zero: dict[str, Float]
    weight_rms: dict[str, Float]
    ratio: dict[str, Float]  # update / weight
    logit_LHS: Float
    entropy_LHS: Float


def model_health(job: SyntheticJob) -> ModelHealth:
    """Of all completed steps; equal for equal jobs."""
    random = np.random.default_rng([job.seed, _STREAM])
    health = _healthy(job, random)
    for fault in job.faults:
        if fault.kind in HEALTH_EFFECTS:
            steps = active_steps(job, fault)
            HEALTH_EFFECTS[fault.kind](health, steps, random)
    return health


def _healthy(job: SyntheticJob, random: Random) -> ModelHealth:
    num_layers, num_steps = LAYERS_PER_STAGE * job.pp, job.steps_completed
    shape = num_layers, num_steps
    at_S = np.arange(num_steps) + job.resumed_at

    def noisy(spread: float, *shape: int) -> Float:
        noise: Float = np.exp(spread * random.standard_normal(shape))
        return noise

    schedule_S = _schedule(random, at_S)
    depth_L1 = np.sqrt(1.0 + np.arange(num_layers))[:, None]
    level = 10 ** random.uniform(-6.5, -3)
    sparse = random.choice([0.0, 0.0, 0.1, 0.3])  # rectifiers on small batches
    falling_S = 0.3 + np.exp(-at_S / 15)
    growing_LH1 = random.uniform(0.0, 0.02, (num_layers, NUM_HEADS, 1))
    sharp_LH1 = random.choice([0.0, 0.0, 0.05], (num_layers, NUM_HEADS, 1))
    logit = random.choice([4.0, 8.0, 30.0, 140.0])
    tall = num_layers, NUM_HEADS, num_steps
    return ModelHealth(
        lr_S=PEAK_LR * schedule_S,
        output_rms={name: 0.5 * depth_L1 * noisy(0.05, *shape) for name in OUTPUTS},
        output_zero={name: np.zeros(shape) for name in OUTPUTS},
        gradient_rms={name: level * falling_S * noisy(0.3, *shape) for name in GROUPS},
        gradient_zero={
            name: np.clip(sparse * (1 + at_S / 80) * noisy(0.1, *shape), 0, 1) for name in GROUPS
        },
        weight_rms={name: WEIGHT_RMS * (1 + at_S / 400) * noisy(0.002, *shape) for name in GROUPS},
        ratio={
            name: 0.3 * PEAK_LR / WEIGHT_RMS * schedule_S * noisy(0.1, *shape) for name in GROUPS
        },
        logit_LHS=_clipped(
            logit * noisy(0.3, num_layers, NUM_HEADS, 1) * np.exp(growing_LH1 * at_S)
        )
        * noisy(0.05, *tall),
        entropy_LHS=4.5 * np.exp(-sharp_LH1 * at_S) * noisy(0.03, *tall),
    )


def _clipped(logit_LHS: Float) -> Float:
    """Logits that begin below QK-clip's threshold and are held there, and sharp ones that stay."""
    begin_LH1 = logit_LHS[..., :1]
    clipped: Float = np.where(begin_LH1 < 100, np.minimum(logit_LHS, 100.0), begin_LH1)
    return clipped


def _schedule(random: Random, at_S: Float) -> Float:
    """Learning rate as a share of its peak: steady, warming up, or decaying to nothing."""
    kind = random.integers(3)
    if kind == 0:
        return np.ones(at_S.size)
    if kind == 1:
        return np.minimum(at_S / 30, 1.0)
    return np.cos(0.5 * np.pi * np.minimum(at_S / 60, 1.0)) ** 2


def _dead_units(health: ModelHealth, steps: slice, random: Random) -> None:
    """Most units, or all, of one layer's MLP."""
    layer = int(random.integers(health.logit_LHS.shape[0]))
    share = float(random.choice([1.0, random.uniform(0.6, 0.95)]))
    living = 1 - health.gradient_zero["mlp"][layer, steps]
    health.gradient_zero["mlp"][layer, steps] = 1 - (1 - share) * living
    if share == 1:
        health.output_zero["mlp"][layer, steps] = 1.0
        health.output_rms["mlp"][layer, steps] = 0.0
        health.gradient_rms["mlp"][layer, steps] = 0.0


def _stalled_updates(health: ModelHealth, steps: slice, random: Random) -> None:
    """A learning rate of next to nothing, or gradients of one layer as small as Adam's eps."""
    if random.random() < 0.5:
        health.lr_S[steps] *= 1e-6
        for ratio_LS in health.ratio.values():
            ratio_LS[:, steps] *= 1e-6
        return
    layer = int(random.integers(health.logit_LHS.shape[0]))
    for name in GROUPS:
        small = 10 ** random.uniform(-10, -8.3)
        usual_S = health.gradient_rms[name][layer, steps]
        health.gradient_rms[name][layer, steps] *= small / usual_S
        health.ratio[name][layer, steps] *= small / (small + 1e-8)


def _entropy_collapse(health: ModelHealth, steps: slice, random: Random) -> None:
    """One head, or all, of a layer."""
    layer, heads = _some_heads(health, random)
    num = len(range(*steps.indices(health.lr_S.size)))
    falling_S = 10 ** -np.minimum(np.arange(1.0, num + 1), 3.0)
    health.entropy_LHS[layer, heads, steps] = 0.5 * falling_S[None, :]


def _logit_growth(health: ModelHealth, steps: slice, random: Random) -> None:
    """One head, or all, of a layer: a jump, and growth from there."""
    layer, heads = _some_heads(health, random)
    num = len(range(*steps.indices(health.lr_S.size)))
    jump = random.uniform(40, 3000)
    health.logit_LHS[layer, heads, steps] *= jump * np.exp(0.05 * np.arange(num))[None, :]


def _some_heads(health: ModelHealth, random: Random) -> tuple[int, slice]:
    num_layers, num_heads, _ = health.logit_LHS.shape
    layer, head = int(random.integers(num_layers)), int(random.integers(num_heads))
    return layer, slice(None) if random.random() < 0.5 else slice(head, head + 1)


HEALTH_EFFECTS: dict[str, Callable[[ModelHealth, slice, Random], None]] = {
    "dead_units": _dead_units,
    "stalled_updates": _stalled_updates,
    "attention_entropy_collapse": _entropy_collapse,
    "logit_growth": _logit_growth,
}
