"""Names of the pipeline schedules and which stages each rank runs; needs no torch."""

from __future__ import annotations

ONE_STAGE_A_RANK = ("1f1b", "gpipe")

NAMES = (*ONE_STAGE_A_RANK, "interleaved", "zero-bubble", "zbv")


def stage_indices(schedule: str, pp: int, pp_size: int) -> tuple[int, ...]:
    """Global indices of the stages that pipeline rank `pp` runs, in order of its chunks."""
    if schedule in ONE_STAGE_A_RANK:
        return (pp,)
    return (pp, 2 * pp_size - 1 - pp) if schedule == "zbv" else (pp, pp_size + pp)


def num_stages(schedule: str, pp_size: int) -> int:
    """Stages of the whole pipeline."""
    return pp_size * (1 if schedule in ONE_STAGE_A_RANK else 2)
