"""Which phase of the start-up a stack of Python frames is in, and where in the job's own code.

A collective decides, whatever calls it, but for the making of groups: a rank that reads a
checkpoint and waits for the others in between waits. Otherwise the outermost call that says what it
is for decides: a batch that imports a module is still the wait for a batch. Imports come last,
because a whole program may run while a module is imported.
"""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from trace_hooks.recording.dumped_stack import Code


class Place(NamedTuple):
    """What a thread is doing: a phase (schema.job_tables.PHASES), and what ran where."""

    phase: str
    what: str


class _Rule(NamedTuple):
    phase: str
    file: str  # how the path ends, or a part of it where it ends in "/"
    functions: frozenset[str]  # empty: any


def _rule(phase: str, file: str, *functions: str) -> _Rule:
    return _Rule(phase, file, frozenset(functions))


_C10D = "torch/distributed/distributed_c10d.py"
_RULES = (
    _rule("rendezvous", _C10D, "init_process_group"),
    _rule("rendezvous", "torch/distributed/rendezvous.py"),
    _rule("groups", _C10D, "new_group", "split_group", "new_subgroups", "shrink_group"),
    _rule("groups", _C10D, "new_subgroups_by_enumeration", "_new_group_with_tag"),
    _rule("groups", _C10D, "_new_process_group_helper"),
    _rule("groups", "torch/distributed/device_mesh.py"),
    _rule("communication", _C10D),
    _rule("communication", "torch/nn/parallel/distributed.py", "__init__"),
    _rule("model", "torch/distributed/fsdp/"),
    _rule("restore", "torch/serialization.py", "load"),
    _rule("restore", "torch/distributed/checkpoint/"),
    _rule("restore", "safetensors/"),
    _rule("restore", "torch/nn/modules/module.py", "load_state_dict"),
    _rule("restore", "torch/optim/optimizer.py", "load_state_dict"),
    _rule("compile", "torch/_dynamo/convert_frame.py"),
    _rule("compile", "torch/_inductor/"),
    _rule("compile", "torch/utils/cpp_extension.py"),
    _rule("compile", "triton/compiler/"),
    _rule("data", "torch/utils/data/dataloader.py"),
    _rule("data", "torchdata/stateful_dataloader/"),
    _rule("device", "torch/cuda/__init__.py", "_lazy_init", "init"),
    _rule("model", "torch/nn/init.py"),
    _rule("model", "torch/nn/modules/module.py", "to", "cuda", "to_empty", "_apply"),
    _rule("model", "torch/nn/modules/", "__init__", "reset_parameters"),
    _rule("model", "torch/optim/", "__init__"),
)
"""The first that fits a frame decides about it."""

_READS = re.compile(
    "(load|read|restore|resume)[a-z_]*(checkpoint|ckpt|state_dict)"
    "|(checkpoint|ckpt)[a-z_]*(load|read|restore|resume)"
)
"""Functions of jobs and frameworks that read a checkpoint, such as Megatron's load_checkpoint."""

_WITH_OTHERS = ("rendezvous", "groups", "communication")
"""Phases in which a rank waits for others, unless the job's own code runs inside the call."""

IN_FIRST_STEP = frozenset(
    ("imports", "rendezvous", "groups", "device", "restore", "compile", "data")
)
"""Phases that are told apart inside the first step: the rest of it is a step."""

_IMPORT = "<frozen importlib._bootstrap"
_OURS = f"{Path(__file__).parents[2]}/"
_STANDARD = tuple(
    path.rstrip("/") + "/"
    for path in (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
)
_PACKAGES = ("/site-packages/", "/dist-packages/")
_LONGEST = 160


def place_of(codes: list[Code]) -> Place | None:
    """Where the thread with this stack is; None: in our own code, or nowhere.

    `codes`: from the innermost frame outwards.
    """
    return _placed(codes, [phase_of(code.file, code.function) for code in codes])


@lru_cache(maxsize=4096)
def phase_of(file: str, function: str) -> str | None:
    """Phase that one frame stands for by itself; None: it says nothing."""
    if file.startswith(_IMPORT):
        return "imports"
    if function == "<module>":  # it is being imported, whatever its functions will do
        return None
    for rule in _RULES:
        fits = rule.file in file if rule.file.endswith("/") else file.endswith(rule.file)
        if fits and (not rule.functions or function in rule.functions):
            return rule.phase
    return "restore" if _READS.search(function) else None


def _placed(codes: list[Code], phases: list[str | None]) -> Place | None:
    """Both lists from the innermost frame outwards."""
    at = _deciding(phases)
    if at is not None:
        phase = phases[at] or "other"
        what = _text(_function(codes[at]), _caller(codes[at + 1 :]))
        inner = next(_own(codes[:at]), None) if phase in _WITH_OTHERS else None
        return Place(phase, f"{_function(inner)} inside {what}"[:_LONGEST] if inner else what)
    if "imports" in phases:
        at = len(phases) - 1 - phases[::-1].index("imports")
        module = next((c for c in codes[at::-1] if c.function == "<module>"), None)
        named = _short(module.file) if module else "a module"
        return Place("imports", _text(named, _caller(codes[at + 1 :])))
    own = next(_own(codes), None)
    if not codes or (own is None and codes[0].file.startswith(_OURS)):
        return None
    return Place("other", _function(own or codes[0])[:_LONGEST])


def _deciding(phases: list[str | None]) -> int | None:
    """Index of the frame that decides about the phase; None where there is no call to name."""
    if "communication" in phases and not {"rendezvous", "groups"} & set(phases):
        return len(phases) - 1 - phases[::-1].index("communication")
    named = [index for index, phase in enumerate(phases) if phase not in (None, "imports")]
    return named[-1] if named else None


def _own(codes: Iterable[Code]) -> Iterator[Code]:
    """Frames of the job's own code, in their order."""
    for code in codes:
        is_library = any(part in code.file for part in _PACKAGES)
        if not (is_library or code.file.startswith(("<frozen", _OURS, *_STANDARD))):
            yield code


def _caller(codes: Iterable[Code]) -> str:
    """The innermost line of the job's own code among these frames; '' where there is none."""
    own = next(_own(codes), None)
    return f"{_short(own.file)}:{own.line}" if own else ""


def _text(what: str, caller: str) -> str:
    return (f"{what} at {caller}" if caller else what)[:_LONGEST]


def _function(code: Code) -> str:
    return f"{code.function} ({_short(code.file)})"


def _short(file: str) -> str:
    """The file's name, with its package where it is one's __init__."""
    parts = file.rsplit("/", 2)
    return "/".join(parts[-2:]) if parts[-1] == "__init__.py" else parts[-1]
