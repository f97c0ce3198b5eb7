"""Sequences of different lengths, packed into rows: as they were drawn, or dealt so that work is
even.

Each rank computes the whole global batch of a step from the seed and takes its own rows, so no
rank has to ask another one.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

import torch

DEALS = ("drawn", "balanced", "alternating")
"""Alternating: each batch twice, as drawn in an even step and balanced in the next one."""

FILL = 0.8
"""Share of a row that sequences take: what is full to the brim cannot be dealt again."""


@dataclass(frozen=True)
class Lengths:
    """A distribution of lengths: `kind` with its numbers, cut to 1 .. `longest` tokens.

    lognormal,median,sigma | uniform,least,most | two,short,long,share of long | pareto,least,alpha
    """

    kind: str
    numbers: tuple[float, ...]

    @classmethod
    def parse(cls, text: str) -> Lengths:
        """From `kind,number,...`; raises ValueError, one sentence."""
        kind, *numbers = text.split(",")
        if kind not in _DRAWS:
            raise ValueError(f"unknown lengths {kind!r}; known: {', '.join(_DRAWS)}")
        try:
            values = tuple(map(float, numbers))
        except ValueError:
            raise ValueError(f"lengths {text!r} have a part that is no number") from None
        if len(values) != _NUMBERS[kind]:
            raise ValueError(f"lengths {kind} take {_NUMBERS[kind]} numbers, not {len(values)}")
        return cls(kind, values)

    def draw(self, source: random.Random, longest: int) -> int:
        """One length."""
        return max(1, min(longest, round(_DRAWS[self.kind](source, *self.numbers))))


_DRAWS: dict[str, Callable[..., float]] = {
    "lognormal": lambda source, median, sigma: median * source.lognormvariate(0.0, sigma),
    "uniform": lambda source, least, most: source.uniform(least, most),
    "two": lambda source, short, long, share: long if source.random() < share else short,
    "pareto": lambda source, least, alpha: least * source.paretovariate(alpha),
}
_NUMBERS = {"lognormal": 2, "uniform": 2, "two": 3, "pareto": 2}


def global_batch(lengths: Lengths, seed: int, step: int, rows: int, width: int) -> list[list[int]]:
    """Sequences of a step in `rows` rows of `width` tokens, in the order in which they were drawn:
    a row takes sequences until FILL of it is full, or the next one does not fit.
    """
    source = random.Random(f"{seed} {step}")
    packed = []
    length = lengths.draw(source, width)
    for _ in range(rows):
        row: list[int] = []
        while sum(row) < FILL * width and sum(row) + length <= width:
            row.append(length)
            length = lengths.draw(source, width)
        packed.append(row)
    return packed


def dealt(packed: list[list[int]], width: int, replicas: int) -> list[list[int]]:
    """The same sequences in as many rows: the longest first, each to the row with the least sum of
    squares that has room. Replicas, whose rows follow each other, get rows of about the same sum at
    the same time, and who has the largest one is next the smallest.

    As drawn where the sequences do not fit that way.
    """
    rows: list[list[int]] = [[] for _ in packed]
    squares, tokens = [0] * len(rows), [0] * len(rows)
    for length in sorted((length for row in packed for length in row), reverse=True):
        with_room = [row for row in range(len(rows)) if tokens[row] + length <= width]
        if not with_room:
            return packed
        row = min(with_room, key=squares.__getitem__)
        rows[row].append(length)
        squares[row] += length**2
        tokens[row] += length
    order = sorted(range(len(rows)), key=squares.__getitem__, reverse=True)
    placed: list[list[list[int]]] = [[] for _ in range(replicas)]
    for first in range(0, len(order), replicas):
        together = order[first : first + replicas]
        for replica, row in enumerate(together if first // replicas % 2 == 0 else together[::-1]):
            placed[replica].append(rows[row])
    return list(chain.from_iterable(placed))


def with_longest(packed: list[list[int]], replica: int, rows: int) -> list[list[int]]:
    """The same rows, of which this replica has those with the largest sums of squares."""
    order = sorted(packed, key=lambda row: sum(length**2 for length in row), reverse=True)
    others = order[rows:]
    return [*others[: replica * rows], *order[:rows], *others[replica * rows :]]


def longest_to(text: str) -> tuple[int, int]:
    """Replica and first step of `REPLICA@STEP`; raises ValueError, one sentence."""
    replica, _, step = text.partition("@")
    if not (replica.isdecimal() and step.isdecimal()):
        raise ValueError(f"the longest rows go to {text!r}; write REPLICA@STEP, such as 2@20")
    return int(replica), int(step)


@dataclass(frozen=True)
class Packing:
    """The rows of one replica. `replica`: its number, and how many there are; `rows`: its rows in
    each step, of `width` tokens.
    """

    lengths: Lengths
    deal: str
    seed: int
    replica: tuple[int, int]
    rows: int
    width: int
    longest_to: tuple[int, int] | None = None
    """A replica that gets the longest rows, and from which step on."""

    def of_step(self, step: int) -> list[list[int]]:
        """Lengths in each of its rows."""
        number, replicas = self.replica
        is_dealt, draw = self.deal == "balanced", step
        if self.deal == "alternating":
            draw, is_dealt = step // 2, step % 2 == 1
        packed = global_batch(self.lengths, self.seed, draw, self.rows * replicas, self.width)
        if is_dealt:
            packed = dealt(packed, self.width, replicas)
        if self.longest_to is not None and step >= self.longest_to[1]:
            packed = with_longest(packed, self.longest_to[0], self.rows)
        return packed[number * self.rows : (number + 1) * self.rows]


def by_microbatch(rows: list[list[int]], size: int) -> list[list[int]]:
    """Lengths in each micro-batch of `size` rows."""
    return [
        list(chain.from_iterable(rows[first : first + size])) for first in range(0, len(rows), size)
    ]


def padded(rows: list[list[int]]) -> torch.Tensor:
    """(B, S): the lengths in each row, 0 behind the last one."""
    most = max(map(len, rows))
    return torch.tensor([row + [0] * (most - len(row)) for row in rows])
