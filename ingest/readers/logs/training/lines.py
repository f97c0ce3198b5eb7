"""The lines of one log that training frameworks wrote about steps, whatever else is in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ingest.readers.logs.heads import (
    Head,
    head_of,
    hosts_before_lines,
    is_labelled,
    record_line,
)
from ingest.readers.logs.line_table import rank_of
from ingest.readers.logs.places import Place
from ingest.readers.logs.timestamps import UNKNOWN_NS, Clock
from ingest.readers.logs.training import (
    deepspeed,
    huggingface,
    job_facts,
    megatron,
    megatron_timers,
    torchtitan,
)
from ingest.readers.tables.logged_step import LoggedStep
from ingest.readers.tables.training_steps import TrainingSteps
from trace_hooks.layout import ParallelLayout
from trace_hooks.log_text.line_rows import without_progress

_FRAMEWORKS = (megatron, torchtitan, deepspeed)
_SIGNS = (
    *(sign for framework in _FRAMEWORKS for sign in framework.SIGNS),
    *huggingface.SIGNS,
    *megatron_timers.SIGNS,
    *job_facts.SIGNS,
)
_LONGEST_LINE = 4096


@dataclass
class TrainingLog:
    """What was found. `ranks`: steps by rank, which is one of line_table's until it is known."""

    ranks: dict[int, TrainingSteps] = field(default_factory=dict)
    timers: dict[tuple[int, int], dict[str, int]] = field(default_factory=dict)
    world_size: int = -1
    layout: ParallelLayout | None = None
    num_without_step: int = 0
    problem: str = ""


class TrainingLines:
    """Reads the lines of one file. `first_lines`: of its beginning; `is_records`: they are JSON."""

    def __init__(
        self, first_lines: Sequence[str], is_records: bool, place: Place, clock: Clock
    ) -> None:
        self.log = TrainingLog()
        self._labelled, self._hosts = is_labelled(first_lines), hosts_before_lines(first_lines)
        self._is_records, self._place, self._clock = is_records, place, clock
        self._facts = job_facts.JobFacts()
        self._timers = megatron_timers.MegatronTimers()
        self._hugging_face = huggingface.HuggingFaceLines()
        self._hugging_face_head = Head(None, None, "", "", "", "")
        self._step = -1

    def add(self, text: bytes) -> None:
        """The next lines, whole ones."""
        is_open = self._hugging_face.waits or self._timers.is_open
        if self.log.problem or not (is_open or any(sign in text for sign in _SIGNS)):
            return
        for raw in text.split(b"\n"):
            if self._is_records:
                raw = record_line(raw).encode("utf-8", "replace")
            try:
                self._add_line(raw[:_LONGEST_LINE])
            except ValueError as error:
                self.log.problem = str(error)
                return

    def finish(self) -> TrainingLog:
        """What was found in all lines."""
        self.log.timers = self._timers.times
        self.log.world_size, self.log.layout = self._facts.world_size, self._facts.layout
        self.log.num_without_step = self._hugging_face.num_without_step
        return self.log

    def _add_line(self, raw: bytes) -> None:
        if self._hugging_face.waits and huggingface.BAR in raw:
            step = self._hugging_face.add_bar(raw.decode("utf-8", "replace"))
            self._note(self._hugging_face_head, step)
        for framework in _FRAMEWORKS:
            if any(sign in raw for sign in framework.SIGNS):
                head = self._head(raw)
                self._note(head, framework.step_of(head.text))
                return
        if any(sign in raw for sign in huggingface.SIGNS):
            self._hugging_face_head = self._head(raw)
            step = self._hugging_face.add_line(self._hugging_face_head.text)
            self._note(self._hugging_face_head, step)
        elif self._timers.is_open or megatron_timers.SIGNS[0] in raw:
            self._timers.add(self._head(raw).text, self._step)
        elif any(sign in raw for sign in job_facts.SIGNS):
            self._facts.add(self._head(raw).text)

    def _head(self, raw: bytes) -> Head:
        text = without_progress(raw.decode("utf-8", "replace"))
        return head_of(text, self._labelled, self._hosts)

    def _note(self, head: Head, step: LoggedStep | None) -> None:
        if step is None:
            return
        self._step = step.step
        end_ns = self._clock.time_ns(head.time or head.text)
        step.end_ns = None if end_ns == UNKNOWN_NS else end_ns
        length = self._facts.sequence_length
        if step.tokens is None and step.samples is not None and length > 0:
            step.tokens = step.samples * length
        self.log.ranks.setdefault(rank_of(head, self._place), TrainingSteps()).add(step)
