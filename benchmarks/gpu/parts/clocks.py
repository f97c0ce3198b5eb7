"""(a) Times of CUDA events against the kernel times of torch.profiler, and what the hooks wait for.

Waits. Some steps run under torch.profiler without hooks, then under each way of recording. In the
profiler's trace, the part counts the calls that wait for the device (cudaStreamSynchronize,
cudaEventSynchronize, cudaDeviceSynchronize, cudaMemcpy without Async, copies from or to memory that
is not pinned), the copies and the kernels. No level may add any of these. A logged loss adds one
copy of 4 bytes a step; statistics and watches add copies and kernels of their own; none of them may
add a wait. `cudaEventQuery`, which the drain thread calls, returns at once and is not a wait.

Times. Steps run under the hooks and torch.profiler together. Each span of the hooks is compared
with the kernels that the host launched between its begin and its end: from the begin of the first
kernel to the end of the last one. `beyond its kernels` is by how much the span is longer than that:
the events themselves take a few us, and the device may be idle because the host has not launched
anything yet. In the model of a billion parameters the host is far ahead of the device, so only the
events are left; in the small model most of it is idle time, which the span did take. No span may be
shorter than its kernels by more than 5 us. `later by our clock` compares the ends of spans with the
ends of their last kernels in absolute time: by how much the hooks and the profiler differ when they
convert a time of the device to a time of the host.

The same is measured with two streams at once (a second forward next to the training step), with
forward and backward captured in a CUDA graph (the span around its replay), and with torch.compile.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from benchmarks.gpu.figures import Figure, NotHere, Place
from benchmarks.gpu.profiled import Counts, counts, profiled_kernels
from benchmarks.gpu.span_times import Compared, compared, numbered
from benchmarks.gpu.training import (
    LARGE,
    SMALL,
    Training,
    Workload,
    recording,
    rows_of,
    settle,
    warm_up,
)
from sample_traces.jobs.model import GPTSizes, token_loss
from trace_hooks.tracer import Tracer

STEPS = 5
KINDS = ("forward", "backward", "optimizer")
TOO_SHORT_US = 5.0
"""An event is read to about a us, a kernel's times to less."""

BUSY = Workload(
    "100 million parameters, bf16",
    GPTSizes(8, 1024, 16, vocabulary=8_192, seq_len=1024),
    16,
    torch.bfloat16,
)
"""Small enough to compile, large enough for the host to be ahead of the device."""

WATCH = {"id": "w", "what": "attention", "layers": [0], "every": 1}
LEVELS: dict[str, dict[str, Any]] = {
    f"level {level}": {"level": level} for level in ("steps", "blocks", "layers")
}
MORE: dict[str, dict[str, Any]] = {
    "loss logged": {},
    "statistics in every step": {"statistics": 1},
    "attention of layer 0 watched in every step": {"allow_content": True, "watches": [WATCH]},
}

Stepping = Callable[[Training, Tracer], object]


def measure(place: Place) -> None:
    """Waits and times with both models; then the times with streams, a graph and torch.compile."""
    for workload in (LARGE, SMALL):
        place.attempt(workload.name, partial(_waits_and_times, place, workload))
    place.attempt("two streams", partial(_two_streams, place))
    place.attempt("CUDA graph", partial(_graph, place))
    place.attempt("torch.compile", partial(_compiled, place))


def _waits_and_times(place: Place, workload: Workload) -> None:
    training = Training(place, workload)
    name = workload.name
    place.attempt(f"{name}: waits", partial(_waits, place, name, training))
    place.attempt(f"{name}: times", partial(_say_times, place, name, training))


def _waits(place: Place, model: str, training: Training) -> None:
    warm_up(place, training.step)
    alone = counts(profiled_kernels(place, training.step, STEPS))
    again = counts(profiled_kernels(place, training.step, STEPS))
    _say_counts(place, f"{model}, again without hooks", alone, again, adds_nothing=False)
    for way, settings in (LEVELS | MORE).items():
        with recording(training, place.new_folder(), **settings) as tracer:

            def step(tracer: Tracer = tracer, is_logged: bool = way == "loss logged") -> None:
                with tracer.step():
                    loss = training.step()
                    if is_logged:
                        tracer.log(loss=loss)

            settle(place, tracer, step)
            hooked = counts(profiled_kernels(place, step, STEPS))
        _say_counts(place, f"{model}, {way}", alone, hooked, adds_nothing=way in LEVELS)


def _say_counts(place: Place, name: str, alone: Counts, hooked: Counts, adds_nothing: bool) -> None:
    waits, copies = hooked.waits - alone.waits, hooked.copies - alone.copies
    kernels = hooked.kernels - alone.kernels
    place.say_of_gpu(
        Figure(
            f"{name}: waits for the device",
            waits,
            f"more in {STEPS} steps",
            holds=waits <= 0,
            note=f"{alone.waits} without hooks; cudaEventQuery {hooked.queries}, taking memory or "
            f"giving it back {hooked.may_wait} (without hooks {alone.may_wait})",
        )
    )
    place.say_of_gpu(
        Figure(
            f"{name}: copies and kernels",
            f"{copies} and {kernels}",
            f"more in {STEPS} steps",
            holds=copies <= 0 and kernels <= 0 if adds_nothing else None,
            note=f"{alone.copies} and {alone.kernels} without hooks",
        )
    )


def _one_step(training: Training, tracer: Tracer) -> None:
    with tracer.step():
        training.step()


def _say_times(place: Place, name: str, training: Training, stepping: Stepping = _one_step) -> None:
    warm_up(place, training.step)
    folder = place.new_folder()
    with recording(training, folder) as tracer:

        def step() -> None:
            stepping(training, tracer)

        settle(place, tracer, step)
        with numbered(tracer.recorder):
            profile = profiled_kernels(place, step, 1 + STEPS)
    _say_compared(place, name, compared(rows_of(folder, "spans"), profile), KINDS)


def _say_compared(place: Place, name: str, spans: list[Compared], kinds: Sequence[str]) -> None:
    """Figures of each kind of span; raises ValueError where one was not recorded at all."""
    for kind in kinds:
        own = [span for span in spans if span.kind == kind]
        if not own:
            raise ValueError(f"no {kind} of the hooks has kernels of torch.profiler in it")
        errors = sorted(one.error_us for one in own)
        work = statistics.median(one.work_us for one in own)
        num_short = sum(error < -TOO_SHORT_US for error in errors)
        place.say_of_gpu(
            Figure(
                f"{name}: {kind}: a span beyond its kernels, median",
                statistics.median(errors),
                "us",
                note=f"least {errors[0]:.1f}, most {errors[-1]:.1f} us; {len(own)} spans, "
                f"their kernels take {work:,.0f} us at the median",
            )
        )
        place.say_of_gpu(
            Figure(
                f"{name}: {kind}: spans shorter than their kernels",
                num_short,
                f"of {len(own)}",
                holds=num_short == 0,
                note=f"by more than {TOO_SHORT_US:g} us",
            )
        )
    late = sorted(span.late_us for span in spans)
    place.say_of_gpu(
        Figure(
            f"{name}: ends of spans, later by our clock than by the profiler's",
            statistics.median(late),
            "us",
            note=f"least {late[0]:.1f}, most {late[-1]:.1f} us",
        )
    )


def _two_streams(place: Place) -> None:
    """A forward without gradients runs on a stream of its own while the model is trained."""
    training = Training(place, BUSY)
    side = None if place.is_rehearsal else torch.cuda.Stream()

    def stepping(training: Training, tracer: Tracer) -> None:
        with tracer.step():
            with _on(side), torch.no_grad():  # its numbers are nobody's: weights may change in it
                training.model(training.tokens[0])
            training.step()
        if side is not None:
            torch.cuda.current_stream().wait_stream(side)

    _say_times(place, "two streams", training, stepping)


@contextmanager
def _on(side: Any) -> Iterator[None]:
    if side is None:
        yield
        return
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        yield


def _graph(place: Place) -> None:
    """Forward and backward are captured while the hooks record, and replayed in a span."""
    if place.is_rehearsal:
        raise NotHere("needs a CUDA device")
    training, folder = Training(place, BUSY), place.new_folder()
    with recording(training, folder) as tracer:
        settle(place, tracer, partial(_one_step, training, tracer))
        graph = _captured(training)
        place.say(Figure("CUDA graph: captured while the hooks record", "yes", holds=True))

        def step() -> None:
            with tracer.step():
                with tracer.span("replay", "forward"):
                    graph.replay()
                training.optimizer.step()

        warm_up(place, step)
        with numbered(tracer.recorder):
            profile = profiled_kernels(place, step, 1 + STEPS)
    spans = compared(rows_of(folder, "spans"), profile)
    _say_compared(place, "CUDA graph", spans, ("forward", "optimizer"))


def _captured(training: Training) -> Any:
    """The graph of a forward and a backward; its gradients are the graph's own memory."""
    tokens = training.tokens[0]

    def forward_backward() -> None:
        token_loss(training.model(tokens), tokens).backward()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # torch's rule: warm up on a stream that is not the default one
        for _ in range(3):
            training.optimizer.zero_grad(set_to_none=True)
            forward_backward()
    torch.cuda.current_stream().wait_stream(side)
    training.optimizer.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        forward_backward()
    return graph


def _compiled(place: Place) -> None:
    training = Training(place, BUSY)
    training.model.compile(backend="aot_eager" if place.is_rehearsal else "inductor")
    try:
        training.step()
    except (RuntimeError, ImportError, OSError) as error:
        raise NotHere(f"the model cannot be compiled: {str(error).strip()[:200]}") from error
    _say_times(place, "torch.compile", training)
