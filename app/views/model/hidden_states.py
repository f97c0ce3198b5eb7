"""Hidden states of all layers of a step in two dimensions, on axes that are the same in each step.

One pair of axes serves all layers and all steps, so that a token's path over the layers, and
changes by training, appear as movement and not as rotating axes. The axes are the first two
principal components of one step, by default the first recorded one: nothing has to be aligned
(Procrustes, signs), and a link shows the same picture regardless of later captures. If training has
moved away from that step, the user can choose another. The other choices: the shown step (most
variance, but not comparable with other steps), and random orthogonal directions with a fixed seed,
independent of the data (Johnson and Lindenstrauss: distances are preserved on average).

`unit`: each state is divided by its RMS, as the norm of the next layer does. Without that, a few
massive activations (arXiv 2402.17762) and the growth over the layers dominate the picture.

Shape suffixes: L layer, T token, C feature, N state (of any token and layer), A axis (2).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.views.model.frames import Wanted, first_step, frames_of, recorded_layers
from app.views.ranks.scales import Floats
from ingest.errors import UserError
from ingest.run import Run
from ingest.stopping import Stop

KINDS = ("first", "own", "random")
"""Axes of the first recorded step, of the shown step, random ones; a number: of that step."""

NUM_AXES = 2
MOST_TOKENS = 512
MOST_FITTED = 512
"""States that the axes are fitted to, spread over layers and tokens."""

_SEED = 0
_NOTHING = 1e-9
"""A direction with a smaller share than this, relative to the first, is rounding error."""


@dataclass(frozen=True, eq=False)
class Axes:
    """Centre and directions of the projection. `step`: of the states that they, or only their
    centre, come from; `num_fitted`: the number of those states.
    """

    kind: str
    step: int
    num_fitted: int
    centre_C: Floats
    direction_CA: Floats


@dataclass(frozen=True, eq=False)
class States:
    """Hidden states of one layer; `tokens`: position of each in the sequence."""

    layer: int
    tokens: np.ndarray
    state_TC: Floats


def axes_of(run: Run, wanted: Wanted, kind: str, unit: bool, stop: Stop | None = None) -> Axes:
    """Axes of a kind (KINDS) for the wanted frames; raises UserError."""
    if kind in ("first", "random"):
        step = first_step(run, wanted, stop)
    elif kind == "own":
        step = wanted.step
    elif kind.isascii() and kind.isdecimal() and len(kind) < 16:
        step = int(kind)
    else:
        raise UserError(f"axes is {kind[:40]!r}; give one of {', '.join(KINDS)}, or a step")
    wanted = replace(wanted, step=step)
    layers = recorded_layers(run, wanted, stop)
    per_layer = max(1, MOST_FITTED // max(1, len(layers)))
    some = [
        _evenly(one.state_TC[np.isfinite(one.state_TC).all(1)], per_layer)
        for one in states_of(run, wanted, unit, layers, stop)
    ]
    state_NC = np.concatenate(some) if some else np.empty((0, 0), np.float32)
    if not len(state_NC):
        raise UserError(f"step {step} has no hidden states of finite values; choose another step")
    if kind == "random":
        direction_CA = random_directions(state_NC.shape[1])
    else:
        direction_CA = principal_directions(state_NC)
    return Axes(kind, step, len(state_NC), state_NC.mean(0), direction_CA)


def principal_directions(state_NC: Floats) -> Floats:
    """The NUM_AXES directions of greatest variance, CA; the largest component of each is
    positive.
    """
    centred_NC = state_NC.astype(np.float64) - state_NC.mean(0, dtype=np.float64)
    # the smaller of the two products gives the same directions
    is_wide = len(centred_NC) < centred_NC.shape[1]
    square = centred_NC @ centred_NC.T if is_wide else centred_NC.T @ centred_NC
    first = np.linalg.eigh(square)[1][:, ::-1][:, :NUM_AXES]
    first_CA = centred_NC.T @ first if is_wide else first
    size_A = np.linalg.norm(first_CA, axis=0)
    greatest_A = np.take_along_axis(first_CA, np.abs(first_CA).argmax(0)[None], 0)[0]
    direction_CA = np.zeros((state_NC.shape[1], NUM_AXES), np.float32)
    there = size_A > _NOTHING * size_A[0]
    direction_CA[:, : len(size_A)][:, there] = (
        first_CA[:, there] * np.where(greatest_A < 0, -1, 1)[there] / size_A[there]
    )
    return direction_CA


def random_directions(num_features: int) -> Floats:
    """Orthogonal directions with a fixed seed, CA."""
    drawn_CA = np.random.default_rng(_SEED).standard_normal((num_features, NUM_AXES))
    orthogonal_CA = np.linalg.qr(drawn_CA)[0]
    direction_CA = np.zeros((num_features, NUM_AXES), np.float32)
    direction_CA[:, : orthogonal_CA.shape[1]] = orthogonal_CA
    return direction_CA


def projection(
    run: Run, wanted: Wanted, axes: Axes, unit: bool, stop: Stop | None = None
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Points of all layers and tokens of a step: `point`, float32, layer by layer, token by token.

    NaN where a layer lacks a token or has values that are not finite. `shares`: the share of the
    states' squared distance from the centre along each axis. Raises UserError.
    """
    layers = recorded_layers(run, wanted, stop)
    tokens = np.empty(0, np.int64)
    points, along_A, whole = [], np.zeros(NUM_AXES), 0.0
    for states in states_of(run, wanted, unit, layers, stop):
        if states.state_TC.shape[1] != len(axes.centre_C):
            raise UserError(
                f"hidden states of step {wanted.step} have {states.state_TC.shape[1]} features and "
                f"those of the axes {len(axes.centre_C)}; choose the axes of this step"
            )
        tokens = tokens if points else states.tokens
        centred_TC = states.state_TC - axes.centre_C
        point_TA = _onto(tokens, states.tokens, centred_TC @ axes.direction_CA)
        finite = np.isfinite(centred_TC).all(1)
        along_A += np.square(centred_TC[finite] @ axes.direction_CA, dtype=np.float64).sum(0)
        whole += float(np.square(centred_TC[finite], dtype=np.float64).sum())
        points.append(point_TA)
    if not points:
        raise UserError(f"no hidden states recorded in step {wanted.step}; choose another step")
    meta = {
        "step": wanted.step,
        "layers": layers,
        "tokens": tokens.tolist(),
        "shares": (along_A / whole).tolist() if whole else [0.0] * NUM_AXES,
        "axes": {"kind": axes.kind, "step": axes.step, "num_fitted": axes.num_fitted},
    }
    return {"point": np.concatenate(points).astype(np.float32).reshape(-1)}, meta


def states_of(
    run: Run, wanted: Wanted, unit: bool, layers: list[int], stop: Stop | None = None
) -> Iterator[States]:
    """Hidden states of each layer, at most MOST_TOKENS of each; only one layer is in memory at a
    time.

    Joins parts of the sequence (sequence parallelism); of several capture requests it uses the
    first. Raises UserError.
    """
    if wanted.what != "residual":
        raise UserError("hidden states are those of the residual stream; request what=residual")
    for layer in layers:
        frames = frames_of(run, wanted, layer, stop)
        first = frames[0]
        parts = {
            frame.row_begin: frame
            for frame in reversed(frames)
            if (frame.watch, frame.microbatch, frame.sample, frame.shape[-1], frame.row_every)
            == (first.watch, first.microbatch, first.sample, first.shape[-1], first.row_every)
        }
        states = [frame.values().reshape(-1, frame.shape[-1]) for frame in parts.values()]
        tokens = np.concatenate(
            [
                begin + np.arange(len(state_TC)) * first.row_every
                for begin, state_TC in zip(parts, states, strict=True)
            ]
        )
        state_TC = np.concatenate(states)
        order = _evenly(np.argsort(tokens, kind="stable"), MOST_TOKENS)
        state_TC = state_TC[order]
        if unit:
            size_T1 = np.sqrt(np.square(state_TC, dtype=np.float64).mean(1, keepdims=True))
            state_TC = (state_TC / np.maximum(size_T1, 1e-30)).astype(np.float32)
        yield States(layer, tokens[order], state_TC)


def _evenly(rows: np.ndarray, most: int) -> np.ndarray:
    """At most this many rows, evenly spread."""
    return rows[:: -(-len(rows) // most)] if len(rows) > most else rows


def _onto(tokens: np.ndarray, own: np.ndarray, point_TA: Floats) -> Floats:
    """Points by the tokens of the first layer; NaN where this layer lacks a token."""
    aligned_TA = np.full((len(tokens), NUM_AXES), np.nan, np.float32)
    row_of_token = {int(token): row for row, token in enumerate(own)}
    rows = np.array([row_of_token.get(int(token), -1) for token in tokens])
    aligned_TA[rows >= 0] = point_TA[rows[rows >= 0]]
    return aligned_TA
