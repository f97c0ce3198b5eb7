"""What goes wrong in a loader, and what counts as right. The job (job.py) makes it happen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Kind:
    """`finding`: its kind. `of_rank`: of one rank, else of the job. `who`: words that must stand in
    the finding, with the worker or source in braces; `cause`: one of these must stand there.
    """

    does: str
    finding: str
    of_rank: bool
    who: str
    cause: tuple[str, ...]
    steps: int = 150


KINDS = {
    "worker": Kind("a worker of one rank waits before each sample", "data_loader", True,
                   "Worker {worker} takes", ("it waits for",)),
    "transform": Kind("a rank's samples spend long in a marked transform", "data_loader", True,
                      "takes", ("transform tokenize",)),
    "storage": Kind("a rank's samples are read slowly", "data_loader", True,
                    "takes", ("it waits for",)),
    "source": Kind("a source of the mixture is slow on all ranks", "data_loader", False,
                   "Source {source} takes", ("it waits for",)),
    "mix": Kind("a source is drawn a fifth as often as planned", "source_starved", False,
                "{source} comes too seldom", ("instead of",)),
    "leak": Kind("all workers of a rank keep what they read", "loader_memory", True,
                 "of rank {rank} take", ("more each minute",), 700),
    "long": Kind("a rank's sequences are eight times as long", "sequence_imbalance", True,
                 "Rank {rank} has longer sequences", ("which let expect",)),
    "standby": Kind("a rank's standby loader falls behind", "loader_standby", True,
                    "of rank {rank} falls behind", ("does not read as fast",)),
}  # fmt: skip

SOURCES = {"web": 0.6, "code": 0.3, "books": 0.1}
SLOW_SOURCES = ("web", "code")
"""A source of a tenth of the samples does not keep anybody waiting."""


@dataclass(frozen=True)
class Fault:
    """One fault of a job; `kind` '' is none."""

    kind: str
    rank: int
    worker: int
    source: str
    first_step: int

    @property
    def words(self) -> str:
        """What must stand in the finding about who it is."""
        return KINDS[self.kind].who.format(worker=self.worker, source=self.source, rank=self.rank)

    def is_found_in(self, finding: dict[str, Any]) -> tuple[bool, bool]:
        """Whether a finding of `rankscope diagnose --json` names the right one, and its cause."""
        kind = KINDS[self.kind]
        ranks = [place["rank"] for place in finding["culprits"]]
        text = " ".join((finding["title"], finding["text"], finding["cause"]))
        is_right = finding["kind"] == kind.finding and ranks == [self.rank] * kind.of_rank
        is_who = is_right and self.words in text
        return is_who, is_who and any(word in text for word in kind.cause)
