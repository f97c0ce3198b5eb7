"""Stored frames: an index, thumbnails of one step, and single frames in full.

Frames are content: the routes require the operator's role before they call anything here. The SQL
is here and not among the saved queries, which every role may run.

Shape suffixes: N frame, Y row of a thumbnail, X column of it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from app.views.ranks.heat_map import edges
from app.views.ranks.scales import Bytes, Floats
from ingest.errors import UserError
from ingest.query.manifest import Narrowing
from ingest.run import TIME_LIMIT_S, Run
from ingest.stopping import Stop
from trace_hooks.protocol.frames import Frame
from trace_hooks.schema import FRAME_KINDS

MOST_TILES = 4096
MOST_PIXELS = 8_000_000
MOST_STEPS = 2000
"""At most this many steps of one kind are listed: the newest."""
_EMPTY, _STRONGEST = 0, 255

_INDEX = (
    "SELECT what, list(DISTINCT step ORDER BY step) AS steps,"
    " list(DISTINCT layer ORDER BY layer) AS layers, list(DISTINCT head ORDER BY head) AS heads,"
    " list(DISTINCT sample ORDER BY sample) AS samples, count(*) AS num_frames"
    " FROM rows_of($frames) WHERE attempt = $attempt GROUP BY what"
)
_FIRST = (
    "SELECT min(step) AS step FROM rows_of($frames) WHERE attempt = $attempt AND what = $what"
    " AND ($sample IS NULL OR sample = $sample)"
)
_LAYERS = (
    "SELECT DISTINCT layer FROM rows_of($frames) WHERE attempt = $attempt AND step = $step"
    " AND what = $what AND ($sample IS NULL OR sample = $sample) ORDER BY layer"
)
_FRAMES = (
    "SELECT * FROM rows_of($frames) WHERE attempt = $attempt AND step = $step AND what = $what"
    " AND layer = $layer AND ($sample IS NULL OR sample = $sample)"
    " AND ($head IS NULL OR head = $head) AND ($name IS NULL OR name = $name)"
    " AND ($shard IS NULL OR shard = $shard)"
    " ORDER BY head, name, shard, sample, microbatch, rank"
)


@dataclass(frozen=True)
class Wanted:
    """Which frames of a step. None: any."""

    what: str
    step: int
    attempt: int | None = None
    layer: int | None = None
    head: int | None = None
    sample: int | None = None
    name: str | None = None
    shard: str | None = None

    def __post_init__(self) -> None:
        if self.what not in FRAME_KINDS:
            raise UserError(f"what is {self.what[:40]!r}; give one of {', '.join(FRAME_KINDS)}")


def frame_index(run: Run, attempt: int | None, stop: Stop | None = None) -> dict[str, Any]:
    """Which steps, layers, heads and sequences were recorded of each kind, and the attempts.

    Raises UserError.
    """
    number = run.newest_attempt if attempt is None else attempt
    values = {"frames": _files(run, number, None), "attempt": number}
    rows = run.snapshot.execute(_INDEX, values, TIME_LIMIT_S, stop).to_pylist()
    by_what = {row["what"]: row for row in rows}
    kinds = [by_what[what] for what in FRAME_KINDS if what in by_what]
    whats = [kind | {"steps": kind["steps"][-MOST_STEPS:]} for kind in kinds]
    return {"whats": whats, "attempts": run.attempts}


def first_step(run: Run, wanted: Wanted, stop: Stop | None = None) -> int:
    """The first step with wanted frames, ignoring `wanted.step`; raises UserError."""
    attempt = _attempt(run, wanted)
    values = {
        "frames": _files(run, attempt, None),
        "attempt": attempt,
        "what": wanted.what,
        "sample": wanted.sample,
    }
    step = run.snapshot.execute(_FIRST, values, TIME_LIMIT_S, stop).column("step")[0].as_py()
    if step is None:
        raise UserError(f"no {wanted.what} was recorded in this run; watch it first")
    return int(step)


def frames_of(run: Run, wanted: Wanted, layer: int, stop: Stop | None = None) -> list[Frame]:
    """All wanted frames of one layer; raises UserError for damaged ones."""
    return [_frame_of(row) for row in _rows(run, wanted, layer, stop)]


def frame(run: Run, wanted: Wanted, stop: Stop | None = None) -> Frame:
    """The first wanted frame; raises UserError if there is none."""
    if wanted.layer is None:
        raise UserError("layer is missing; give the number of a layer")
    rows = _rows(run, wanted, wanted.layer, stop)
    if not rows:
        raise UserError(
            f"no {wanted.what} of layer {wanted.layer} was recorded in step {wanted.step}; "
            "choose another step"
        )
    return _frame_of(rows[0])


def tiles(
    run: Run, wanted: Wanted, height: int, width: int, stop: Stop | None = None
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Thumbnails of all wanted frames: a byte per pixel, frame by frame, and what each one shows.

    0 means no value, 1 to 255 zero to the strongest: of attention and probabilities by size; for
    values with a sign 128 is zero. Raises UserError.
    """
    if height < 1 or width < 1 or height * width > 1 << 16:
        raise UserError(f"thumbnails of {height} x {width} cannot be drawn; request smaller ones")
    made: dict[str, list[Any]] = defaultdict(list)
    seen = set()
    most = min(MOST_TILES, MOST_PIXELS // (height * width))
    is_cut = False
    for layer in recorded_layers(run, wanted, stop):
        for row in _rows(run, wanted, layer, stop):
            place = tuple(row[name] for name in ("layer", "head", "name", "shard"))
            if place in seen:  # another micro-batch, a replica
                continue
            if len(seen) >= most:
                is_cut = True
                break
            seen.add(place)
            found = _frame_of(row)
            made["code"].append(tile(found, height, width))
            made["places"].append(
                dict(zip(("layer", "head", "name", "shard"), place, strict=True))
                | {"cost_ns": found.cost_ns, "rank": found.rank}
            )
    code_NYX = np.array(made["code"], dtype=np.uint8).reshape(-1)
    meta = {
        "height": height,
        "width": width,
        "frames": made["places"],
        "step": wanted.step,
        "what": wanted.what,
        "is_cut": is_cut,
    }
    return {"code": code_NYX}, meta


def tile(found: Frame, height: int, width: int) -> Bytes:
    """One frame as height x width bytes, each the mean of its block; small frames are enlarged."""
    values = found.values()
    matrix = values.reshape(-1, values.shape[-1])
    pooled_YX = _means(matrix, height, width)
    finite = np.abs(pooled_YX[np.isfinite(pooled_YX)])
    peak = float(finite.max()) if finite.size else 0.0
    share = np.nan_to_num(pooled_YX) / (peak or 1.0)
    if found.what in ("attention", "probabilities"):
        code = 1 + np.sqrt(np.clip(share, 0, 1)) * (_STRONGEST - 1)
    else:
        code = 128 + np.clip(share, -1, 1) * 127
    return np.where(np.isfinite(pooled_YX), np.rint(code), _EMPTY).astype(np.uint8)


def _means(matrix: Floats, height: int, width: int) -> Floats:
    """Means of blocks, along each side with more values than pixels."""
    pooled = matrix
    for axis, most in ((0, height), (1, width)):
        count = pooled.shape[axis]
        if count > most:
            border = edges(count, most)
            sizes = np.diff(border).reshape((-1, 1) if axis == 0 else (1, -1))
            pooled = np.add.reduceat(pooled, border[:-1], axis=axis) / sizes
        else:
            pooled = np.take(pooled, np.arange(most) * count // most, axis=axis)
    return pooled


def recorded_layers(run: Run, wanted: Wanted, stop: Stop | None = None) -> list[int]:
    """Layers with frames, ascending."""
    if wanted.layer is not None:
        return [wanted.layer]
    layers = run.snapshot.execute(_LAYERS, _values(run, wanted), TIME_LIMIT_S, stop)
    return [int(layer) for layer in layers.column("layer").to_pylist()]


def _rows(run: Run, wanted: Wanted, layer: int, stop: Stop | None) -> list[dict[str, Any]]:
    """Frames of one layer: all of a step at once might not fit into memory."""
    narrower = {
        "layer": layer,
        "head": wanted.head,
        "name": wanted.name,
        "shard": wanted.shard,
    }
    values = _values(run, wanted) | narrower
    return run.snapshot.execute(_FRAMES, values, TIME_LIMIT_S, stop).to_pylist()


def _values(run: Run, wanted: Wanted) -> dict[str, Any]:
    """Parameters of both queries."""
    attempt = _attempt(run, wanted)
    return {
        "frames": _files(run, attempt, wanted.step),
        "attempt": attempt,
        "step": wanted.step,
        "what": wanted.what,
        "sample": wanted.sample,
    }


def _attempt(run: Run, wanted: Wanted) -> int:
    return run.newest_attempt if wanted.attempt is None else wanted.attempt


def _files(run: Run, attempt: int, step: int | None) -> list[str]:
    narrowing = Narrowing(attempt=attempt, step_min=step, step_max=step)
    return run.snapshot.files("frames", narrowing)


def _frame_of(row: dict[str, Any]) -> Frame:
    """Frame from a row of the table; raises UserError for a damaged one."""
    try:
        values = {field.name: row[field.name] for field in fields(Frame)}
        return Frame(**values | {"shape": tuple(row["shape"])})
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(f"a stored frame of step {row.get('step')} is damaged: {error}") from None
