"""What the faults of faults.py do to a running job."""

from __future__ import annotations

import ctypes
import gc
import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from sample_traces.jobs.faults import Fault
from sample_traces.jobs.host_faults import Burner, SlowFile, touch_memory
from sample_traces.jobs.model import Stage

MARK_WRITTEN_S = 2.0
"""Hooks hand over what they have within about a second."""

MOST_COLLECTIONS = 10
"""Calls until one has collected something."""

MUTEX_BYTES = 64
"""At least sizeof(pthread_mutex_t); 40 on x86-64 Linux, 48 on AArch64."""

Announce = Callable[[Fault], None]


class Injector:
    """Makes the faults that concern one rank happen, and announces each when it begins.

    `announce` is called once per fault, on the rank it hits (faults of every rank: on rank 0).
    """

    def __init__(
        self,
        faults: Sequence[Fault],
        rank: int,
        world_size: int,
        seed: int,
        device: torch.device,
        announce: Announce,
    ) -> None:
        self.faults = faults
        self.rank = rank
        self.world_size = world_size
        self.seed = seed
        self.work = ExtraWork(device)
        self.announce = announce
        self.step = -1
        self.struck = -1
        self.burner = Burner(rank) if any(fault.kind == "burner" for fault in faults) else None

    def install(self, stage: Stage) -> None:
        """Prepare faults of compute and late arrival in the parts of a stage."""
        for fault in self.faults:
            if fault.rank not in (None, self.rank):
                continue
            if fault.kind in ("slow-rank", "slow-job"):
                for module in stage.parts():
                    self._slow_down(module, fault)
            elif fault.kind == "late-rank":
                for block in stage.blocks.values():
                    self._delay(block.attention.out, fault)
                    self._delay(block.mlp.down, fault)
            elif fault.kind == "slow-expert-rank":
                for block in stage.blocks.values():
                    self._slow_down(block.experts, fault)
            elif fault.kind in LOGITS:
                for block in stage.blocks.values():
                    self._add_to_logit(block.router.gate, fault)
            elif fault.kind in _IN_FORWARD:
                self._strike(next(iter(stage.blocks.values())), fault)

    def begin_step(self, step: int) -> None:
        """Announce what begins in this step, and do what happens at its beginning."""
        self.step = step
        for fault in self.faults:
            if fault.first_step == step and (fault.rank or 0) == self.rank:
                self.announce(fault)
        for fault in self.faults:
            if fault.active(step) and self._hit(fault, step) == self.rank:
                _AT_STEP_BEGIN.get(fault.kind, _nothing)(fault)
            if fault.kind == "burner" and fault.rank == self.rank:
                self._burn(fault)

    def after_backward(self, parameters: Sequence[nn.Parameter]) -> None:
        """Come late to the all-reduce that follows, or spoil a gradient."""
        for fault in self.faults:
            hit = fault.active(self.step) and self._hit(fault, self.step) == self.rank
            if fault.kind == "late-step" and hit:
                time.sleep(fault.ms / 1_000)
            if fault.kind == "nan" and fault.rank == self.rank and fault.active(self.step):
                local_part(parameters[0].grad).view(-1)[0] = float("nan")

    def end_step(self) -> None:
        """Save where there is a slow-save fault: all ranks do, before it begins and after, too."""
        for fault in self.faults:
            if fault.saves(self.step):
                slow = fault.strikes(self.step) and fault.rank in (None, self.rank)
                torch.save({"step": self.step}, SlowFile(fault.ms / 1_000 if slow else 0.0))

    def _hit(self, fault: Fault, step: int) -> int:
        """Rank a fault hits in a step: the one it names, else another one each step."""
        if fault.rank is not None:
            return fault.rank
        return random.Random(f"{self.seed} {step}").randrange(self.world_size)

    def _delay(self, module: nn.Module, fault: Fault) -> None:
        def before(_module: nn.Module, _args: Any) -> None:
            if fault.active(self.step):
                time.sleep(fault.ms / 1_000)

        module.register_forward_pre_hook(before)

    def _strike(self, module: nn.Module, fault: Fault) -> None:
        """Once in each step that the fault strikes in, before a forward of `module`."""

        def before(_module: nn.Module, _args: Any) -> None:
            if self.struck == self.step or not fault.strikes(self.step):
                return
            self.struck = self.step
            if fault.kind == "spikes":
                self.work.run(fault.ms / 1_000)
            else:
                touch_memory(fault.mb)

        module.register_forward_pre_hook(before)

    def _burn(self, fault: Fault) -> None:
        assert self.burner is not None
        if self.step == fault.first_step:
            self.burner.start(fault.share)
        elif fault.last_step is not None and self.step == fault.last_step + 1:
            self.burner.stop()

    def _slow_down(self, module: nn.Module, fault: Fault) -> None:
        """After each forward and backward of `module`, matrix products for (x - 1) of its time."""
        begun_s = 0.0

        def begin() -> None:
            nonlocal begun_s
            begun_s = self.work.own_s()

        def end() -> None:
            self.work.run((self.work.own_s() - begun_s) * (fault.x - 1))

        def before_forward(_module: nn.Module, args: tuple[Any, ...]) -> None:
            if fault.active(self.step):
                begin()
                if args[0].requires_grad:
                    args[0].register_hook(lambda _gradient: end())

        def after_forward(_module: nn.Module, _args: Any, output: Any) -> None:
            if fault.active(self.step):
                end()
                output = output[0] if isinstance(output, tuple) else output
                if output.requires_grad:
                    output.register_hook(lambda _gradient: begin())

        module.register_forward_pre_hook(before_forward)
        module.register_forward_hook(after_forward)

    def _add_to_logit(self, gate: nn.Module, fault: Fault) -> None:
        """Of one expert, for all tokens."""

        def after_forward(_module: nn.Module, _args: Any, logits: torch.Tensor) -> Any:
            if not fault.active(self.step):
                return None
            added = torch.zeros_like(logits[0])
            added[fault.expert] = LOGITS[fault.kind]
            return logits + added

        gate.register_forward_hook(after_forward)


LOGITS = {"hot-expert": 10.0, "dead-expert": -10.0}
"""What each of these faults adds to the logit of its expert."""

_IN_FORWARD = ("spikes", "page-faults")


def local_part(gradient: Any) -> torch.Tensor:
    """This rank's part of a gradient: all of it where it is no DTensor."""
    part: torch.Tensor = gradient.to_local() if hasattr(gradient, "to_local") else gradient
    return part


class ExtraWork:
    """Real work for a measured time: thread CPU time on CPU, time on the device otherwise."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.extra_s = 0.0
        size = 64 if device.type == "cpu" else 2048
        self.matrix = torch.ones(size, size, device=device)
        self.product = torch.empty_like(self.matrix)

    def own_s(self) -> float:
        """Seconds this rank has computed so far, the extra work not counted."""
        return self._spent_s() - self.extra_s

    def run(self, seconds: float) -> None:
        """Multiply matrices until `seconds` more are spent."""
        begun_s = now_s = self._spent_s()
        with torch.no_grad():
            while now_s < begun_s + seconds:
                torch.mm(self.matrix, self.matrix, out=self.product)
                now_s = self._spent_s()
        self.extra_s += now_s - begun_s

    def _spent_s(self) -> float:
        if self.device.type == "cpu":
            return time.thread_time()
        torch.cuda.synchronize(self.device)
        return time.perf_counter()


def _collect_garbage(fault: Fault) -> None:
    """Objects in cycles, and a full collection that must look through them.

    gc.collect() does nothing while another thread collects: then it is called again.
    """
    cycles = [[None] for _ in range(fault.objects)]
    for cycle in cycles:
        cycle[0] = cycle  # type: ignore[call-overload]
    del cycles
    for _ in range(MOST_COLLECTIONS):
        if gc.collect() > 0:
            break


def _hang(fault: Fault) -> None:
    time.sleep(fault.seconds)


def _hold_gil(fault: Fault) -> None:
    """Wait in C without giving the GIL back: no Python thread of the process runs.

    Waits for a mutex this thread has locked itself; a signal, such as the watchdog's for stacks,
    would end a sleep but not this. Source: pthread_mutex_timedlock(3p).
    """
    c = ctypes.PyDLL(None)
    mutex = ctypes.create_string_buffer(MUTEX_BYTES)  # zeros: an unlocked one
    seconds, ns = divmod(time.time_ns() + int(fault.seconds * 1e9), 10**9)
    c.pthread_mutex_lock(mutex)
    c.pthread_mutex_timedlock(mutex, (ctypes.c_long * 2)(seconds, ns))
    c.pthread_mutex_unlock(mutex)


def _kill(fault: Fault) -> None:
    """Die without a chance to clean up, once the mark of it is on disk."""
    time.sleep(MARK_WRITTEN_S)
    os.kill(os.getpid(), signal.SIGKILL)


def _nothing(fault: Fault) -> None:
    """Faults that act in other modules: in hooks, in the data set, on gradients."""


_AT_STEP_BEGIN: dict[str, Callable[[Fault], None]] = {
    "gc": _collect_garbage,
    "hang": _hang,
    "hold-gil": _hold_gil,
    "kill": _kill,
}
