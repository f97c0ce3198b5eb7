"""The watches of one rank: which were requested, which are in progress, which are due in a step.

Any thread may call `ask`; everything else runs on the training thread, at the borders of steps.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from trace_hooks.protocol.watches import MAX_WATCHES, Ack, Watch
from trace_hooks.recording.clock import now
from trace_hooks.sources.context import SourceContext
from trace_hooks.sources.inspection.captures import ActiveWatch
from trace_hooks.sources.tensors.global_indices import GlobalPlaces
from trace_hooks.sources.tensors.tensor_names import output_place
from trace_hooks.sources.training.module_parts import find_parts

log = logging.getLogger("trace_hooks")

HEADS = ("attention", "qkv")
OUTPUTS = ("residual", "mlp", "logits")
PARAMETERS = ("gradients", "weights")

REFUSED = (
    "this job does not allow its content to be captured; start it with allow_content=True or "
    "TRACE_HOOKS_ALLOW_CONTENT=1"
)


class WatchList:
    """Watches of one rank."""

    def __init__(self, context: SourceContext, places: GlobalPlaces) -> None:
        self.active: list[ActiveWatch] = []
        self.due: list[ActiveWatch] = []
        self.heads: dict[int, tuple[int, int]] = {}  # (first, number) of this rank, by layer
        self._recorder = context.recorder
        self._models = context.models
        self._rank_state = context.rank_state
        self._allow_content = context.options.allow_content
        self._places = places
        self._lock = threading.RLock()  # a signal handler may stop the tracer meanwhile
        self._requested: dict[str, tuple[Watch, ...]] = {}  # by who requested them
        self._wanted: tuple[Watch, ...] | None = None  # from the next step on

    def ask(self, watches: Sequence[Watch], origin: str) -> list[Ack]:
        """Replace the watches that `origin` has requested before, from the next step on."""
        acks = []
        with self._lock:
            others = [
                w
                for other, watches_of_other in self._requested.items()
                if other != origin
                for w in watches_of_other
            ]
            taken: list[Watch] = []
            for watch in watches:
                ack = self._answer(watch, [*others, *taken])
                if ack.ok:
                    taken.append(watch)
                acks.append(ack)
            self._requested[origin] = tuple(taken)
            self._wanted = (*others, *taken)
        if origin != "server":  # it gets the answers
            for ack in acks:
                if not ack.ok:
                    self._note(f"watch {ack.id} is refused: {ack.text}")
        return acks

    def change(self) -> bool:
        """Begin new watches and end those no longer requested; whether there was a request."""
        if self._wanted is None:
            return False
        with self._lock:
            wanted, self._wanted = self._wanted or (), None
        before = {active.watch: active for active in self.active}
        self.active = [
            before.pop(watch) if watch in before else ActiveWatch(watch) for watch in wanted
        ]
        for active in before.values():
            self._note_end(active)
        return True

    def begin_step(self, step: int) -> bool:
        """Choose the watches that are due; whether one has ended by itself."""
        over = [active for active in self.active if active.is_over(step)]
        for active in over:
            self.active.remove(active)
            self._note_end(active)
            with self._lock:
                for requester, own in self._requested.items():
                    self._requested[requester] = tuple(
                        watch for watch in own if watch != active.watch
                    )
        self.due = [active for active in self.active if active.is_due(step)]
        return bool(over)

    def _note_end(self, active: ActiveWatch) -> None:
        if not active.frames and not active.left_out:
            return  # another rank has captured it
        ms = active.cost_ns / 1e6 / max(1, active.steps)
        drain_ms = active.drain_ns / 1e6 / max(1, active.steps)
        text = (
            f"watch {active.watch.id} ended after {active.steps} steps with {active.frames} frames "
            f"of {active.num_bytes} bytes, {ms:.3g} ms per step of the training thread and "
            f"{drain_ms:.3g} ms of the thread that writes; {active.thinned} steps and "
            f"{active.left_out} frames were left out because of its limits"
        )
        self._recorder.add_row("marks", ts_ns=now(), kind="note", text=text)

    def _note(self, text: str) -> None:
        log.warning("trace_hooks: %s", text)
        self._recorder.add_row("marks", ts_ns=now(), kind="note", text=text)

    def _answer(self, watch: Watch, others: Sequence[Watch]) -> Ack:
        """Whether this rank takes a watch in addition to the others, and why not."""
        why_not = self._why_not(watch)
        if why_not is None and len(others) >= MAX_WATCHES:
            why_not = f"{MAX_WATCHES} watches are in progress; end one of them first"
        if why_not is None and watch.id in [other.id for other in others]:
            why_not = f"another watch has the id {watch.id}; give this one an id of its own"
        if why_not is not None:
            return Ack(watch.id, False, why_not)
        if not self._models.roots:
            return Ack(watch.id, True, "taken; this rank has no model yet")
        layers = [n for n in self._places.layers() if watch.layers is None or n in watch.layers]
        where = f"layers {_listed(layers)}" if watch.what != "logits" else "the head"
        return Ack(watch.id, True, f"taken for {where} of this rank")

    def _why_not(self, watch: Watch) -> str | None:
        layout = self._rank_state.layout
        if not self._allow_content:
            return REFUSED
        if watch.what == "attention" and layout is not None:
            size = layout.size("cp")
            if size > 1:
                return f"no rank has all keys under context parallelism (cp {size})"
        if not self._models.roots:
            return None
        layers = self._places.layers()
        if watch.what == "logits":
            return None
        wanted = [n for n in layers if watch.layers is None or n in watch.layers]
        if not wanted:
            missing = _listed(watch.layers or ())
            return f"this rank has no layer {missing}; it has layers {_listed(layers)}"
        if watch.what in HEADS:
            return self._why_no_heads(watch, wanted)
        return None

    def _why_no_heads(self, watch: Watch, layers: list[int]) -> str | None:
        if not set(layers) - self._compiled_layers():
            return f"attention of layers {_listed(layers)} is compiled: nothing in it is visible"
        known = [self.heads[layer] for layer in layers if layer in self.heads]
        if watch.heads is None or len(known) < len(layers):
            return None
        present = {head for first, number in known for head in range(first, first + number)}
        if present.intersection(watch.heads):
            return None
        return (
            f"this rank has no head {_listed(watch.heads)}; it has heads {_listed(sorted(present))}"
        )

    def _compiled_layers(self) -> set[int]:
        """Layers that are compiled as a whole, or whose attention is."""
        layers: set[int] = set()
        for model, stage in list(self._models.roots.values()):
            for part in find_parts(model):
                tensor = output_place(part.name, type(part.module).__name__).tensor
                if part.compiled and tensor in ("residual", "attention"):
                    layers.add(self._places.layer(part, stage))
        return layers


def _listed(numbers: Sequence[int]) -> str:
    """Short text of numbers, such as "0 to 3, 8", or "none"."""
    pieces: list[list[int]] = []
    for number in sorted(numbers):
        if pieces and number == pieces[-1][-1] + 1:
            pieces[-1].append(number)
        else:
            pieces.append([number])
    texts = [f"{p[0]} to {p[-1]}" if len(p) > 1 else str(p[0]) for p in pieces]
    return ", ".join(texts) or "none"
