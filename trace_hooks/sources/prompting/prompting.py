"""Runs a prompt through the model in training, between two steps, on request.

The job's script says how (`tracer.prompts`), and the job must allow content. The server sends the
prompt to all ranks and names a step (trace_hooks/protocol/prompts.py), after which all ranks meet
in the store (agreement.py) and make the same forwards, or none of them does. Each token, with the
most probable ones and the attention of the last row, goes to the dashboard as frames
(prompt_frames.py); nothing of it is stored. Afterwards the model is as before (prompt_state.py).
Only jobs that mark steps by `with tracer.step()` have a place between them.

Misses: attention inside compiled regions and under context parallelism. Its forwards, collectives
and messages get no rows, since they are not training; they are written to the ring and counted, so
that later numbers agree with those of other ranks.
Costs: without a prompt, one check a step. With one, training waits: LIMIT_S at most and one
forward. Spans and marks of the kind `prompt` say how long.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from trace_hooks.job.process_info import distributed
from trace_hooks.job.rendezvous import own_connection
from trace_hooks.protocol.prompts import PROMPT, Prompt, Word, server_request
from trace_hooks.recording import guard
from trace_hooks.recording.clock import now, thread_cpu
from trace_hooks.sources.base import Source
from trace_hooks.sources.context import SourceContext
from trace_hooks.sources.prompting.agreement import STOP, Agreement
from trace_hooks.sources.prompting.prompt_frames import PromptFrames
from trace_hooks.sources.prompting.prompt_state import undisturbed
from trace_hooks.sources.prompting.prompted_model import PromptedModel, next_token
from trace_hooks.sources.tensors.attention import CALLS, AttentionCall, weights
from trace_hooks.sources.tensors.global_indices import GlobalPlaces, coordinates

LIMIT_S = 30.0
"""No forward begins later than this after the beginning of a prompt."""

REFUSED = (
    "answers of a model are content, which this job does not allow; start it with "
    "allow_content=True or TRACE_HOOKS_ALLOW_CONTENT=1"
)
UNKNOWN = "the job's script does not say how to prompt its model; have it call tracer.prompts(...)"
NO_STEPS = "prompts run between the steps of `with tracer.step():`, which this job does not use"


class Prompting(Source):
    """Prompts of one rank, see the module's docstring."""

    name = "prompting"

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        self._places = GlobalPlaces(context)
        self._lock = threading.RLock()  # a signal handler may stop the tracer meanwhile
        self._prompt: Prompt | None = None
        self._goes = False  # the server has reported that all ranks have taken it
        self._model: PromptedModel | None = None
        self._frames: PromptFrames | None = None  # of the prompt that runs
        self._length = 0  # tokens of the forward that runs
        self._store: Any = None

    def install(self) -> None:
        """Register the command."""
        self.context.live.commands.register(PROMPT, self.ask)

    def uninstall(self) -> None:
        """Drop a waiting prompt."""
        self._drop()
        self._model = None

    def register(self, model: PromptedModel) -> None:
        """Set how this rank is prompted."""
        self._model = model

    def ask(self, value: Any) -> str:
        """Take a prompt, or the message that follows one (any thread); raises ValueError."""
        request = server_request(value)
        with self._lock:
            if isinstance(request, Word):
                return self._follow(request)
            why_not = self._why_not(request)
            if why_not is not None:
                raise ValueError(why_not)
            self._prompt, self._goes = request, False
            self.context.steps.between = self._after_step
        return f"runs after step {request.step}, this rank is in step {self.rank_state.step}"

    def _follow(self, word: Word) -> str:
        prompt = self._prompt
        if prompt is None or prompt.id != word.id:
            raise ValueError("this rank has no such prompt; it may be over")
        if not word.goes:
            self._drop()
            return "dropped"
        self._goes = True
        return f"goes after step {prompt.step}"

    def _why_not(self, prompt: Prompt) -> str | None:
        if not self.context.options.allow_content:
            return REFUSED
        if self._model is None:
            return UNKNOWN
        if not self.context.steps.explicit:
            return NO_STEPS
        if self._prompt is not None or self._frames is not None:
            return "another prompt is in progress on this rank; wait until it is over"
        if prompt.step is None or prompt.step <= self.rank_state.step:
            return f"step {prompt.step} has begun on this rank; ask for a later one"
        return self._model.why_not(self.rank_state.layout)

    def _drop(self) -> None:
        with self._lock:
            self._prompt = None
            self.context.steps.between = None

    def _after_step(self) -> None:
        """Run the prompt if its step has just ended (training thread)."""
        prompt = self._prompt
        if prompt is None or prompt.step is None or self.rank_state.step < prompt.step:
            return
        goes = self._goes
        self._drop()
        if self.rank_state.step == prompt.step:  # all ranks count the same, so all or none are here
            guard.attempt("prompting.run", lambda: self._run(prompt, goes), switch_off=False)

    def _run(self, prompt: Prompt, goes: bool) -> None:
        model = self._model
        assert model is not None
        begun_ns, begun_cpu_ns = now(), thread_cpu()
        frames = self._frames = PromptFrames(prompt, self.context, model.text)
        running = _Running(prompt, model, frames, self._agreement(prompt), self._follow_attention)
        self.rank_state.prompting_thread = threading.get_ident()
        try:
            with undisturbed(model.models):
                running.run(goes)
        finally:
            self.rank_state.prompting_thread = 0
            self._frames = None
        self._record_cost(prompt, running, now() - begun_ns, thread_cpu() - begun_cpu_ns)

    def _record_cost(self, prompt: Prompt, running: _Running, ns: int, cpu_ns: int) -> None:
        """Record the cost, but not the text, which is content."""
        recorder = self.recorder
        recorder.add_span(
            recorder.site(PROMPT, "host"),
            now() - ns,
            now(),
            step=self.rank_state.step,
            cpu_ns=cpu_ns,
        )
        early = ", ended early" if running.problem else ""
        recorder.add_row(
            "marks",
            ts_ns=now(),
            kind=PROMPT,
            text=f"prompt {prompt.id}: {running.made} tokens{early}; training waited "
            f"{ns / 1e6:.0f} ms and its thread used {cpu_ns / 1e6:.0f} ms of CPU time",
            args=json.dumps(
                {
                    "id": prompt.id,
                    "tokens": running.made,
                    "wait_ns": ns,
                    "cpu_ns": cpu_ns,
                    "ended_early": bool(running.problem),
                }
            ),
        )
        running.frames.end(running.made, running.problem, ns, running.speaks)

    def _agreement(self, prompt: Prompt) -> Agreement:
        group = distributed()
        if group is None or group.get_world_size() == 1:
            return Agreement(None, prompt.id, 0, 1)
        if self._store is None:
            self._store = own_connection(group.distributed_c10d._get_default_store())
        return Agreement(self._store, prompt.id, group.get_rank(), group.get_world_size())

    def _follow_attention(self, length: int, listens: bool) -> None:
        """Follow calls of attention during a forward of this many tokens, or stop that."""
        self._length = length
        CALLS.unlisten(self._on_attention_call)
        if listens and self._is_first_copy():
            CALLS.listen(self._on_attention_call)

    def _is_first_copy(self) -> bool:
        own = coordinates(self.rank_state.layout)
        return all(index == 0 for axis, index in own.items() if axis not in ("tp", "pp"))

    def _on_attention_call(self, call: AttentionCall) -> None:
        guard.attempt("prompting.attention", lambda: self._attention(call), switch_off=False)

    def _attention(self, call: AttentionCall) -> None:
        """Keep the row of the last token of attention that is about to run on this thread."""
        frames, place = self._frames, self._places.attention(call)
        if frames is None or place is None or place.layer not in frames.layers:
            return
        if call.num_rows < self._length or call.num_keys < self._length:
            return
        if place.shard == "whole" and coordinates(self.rank_state.layout).get("tp", 0):
            return
        last = slice(self._length - 1, self._length)
        weights_HT = weights(call, range(call.num_heads), last, 0)[:, 0, : self._length]
        frames.keep(place, weights_HT)


class _Running:
    """One prompt in progress on this rank."""

    def __init__(
        self,
        prompt: Prompt,
        model: PromptedModel,
        frames: PromptFrames,
        agreement: Agreement,
        listening: Callable[[int, bool], None],
    ) -> None:
        self.made = 0
        self.problem = ""
        self.speaks = False  # this rank sends the beginning and the end
        self.frames = frames
        self._prompt, self._model = prompt, model
        self._agreement, self._follow_attention = agreement, listening
        self._generator = torch.Generator().manual_seed(prompt.seed)
        self._end_s = time.monotonic() + LIMIT_S

    def run(self, goes: bool) -> None:
        """Run all forwards; any error ends the prompt on all ranks and sets `problem`."""
        first = self._agreement.meet(self._attempt(lambda: self._begin(goes)))
        self.speaks = first["by"] == self._agreement.rank
        self.problem = first.get(STOP, "")
        if self.problem:
            return
        ids: list[int] = first["ids"]
        if self.speaks:
            self.frames.begin(ids)
        while self.made < self._prompt.tokens and not self.problem:
            self._add_token(ids)

    def _add_token(self, ids: list[int]) -> None:
        """Add one token."""
        chances: list[tuple[int, float]] = []
        met = self._agreement.meet(self._attempt(lambda: self._next(ids, chances)))
        self.problem = met.get(STOP, "")
        if self.problem:
            return
        if met["by"] == self._agreement.rank:
            self.frames.token(self.made, len(ids), chances)
        self.frames.send(self.made)
        ids.append(met["token"])
        self.made += 1

    def _begin(self, goes: bool) -> dict[str, Any]:
        if not goes:
            raise ValueError("not all ranks got the message to begin in time; try again")
        return {"ids": self._model.encode(self._prompt.text, self._prompt.tokens)}

    def _next(self, ids: Sequence[int], chances: list[tuple[int, float]]) -> dict[str, Any] | None:
        if time.monotonic() > self._end_s:
            raise ValueError(f"it took longer than {LIMIT_S:g} s")
        self._follow_attention(len(ids), bool(self._prompt.layers))
        try:
            logits_V = self._model.logits_V(ids)
        finally:
            self._follow_attention(len(ids), False)
        if logits_V is None:
            return None
        token, most_probable = next_token(logits_V, self._prompt.temperature, self._generator)
        chances += most_probable
        return {"token": token}

    def _attempt(self, make: Callable[[], dict[str, Any] | None]) -> dict[str, Any] | None:
        """A proposal; one to stop where making it raises: the script's own functions run here."""
        try:
            return make()
        except Exception as error:  # noqa: BLE001 - shown to the user, training goes on
            plain = isinstance(error, ValueError)
            return {STOP: str(error)[:300] if plain else f"{type(error).__name__}: {error}"[:300]}
