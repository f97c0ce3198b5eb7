"""What lines of logs are known to mean: the label of a text, and the table of all labels.

The first label in the table that fits is taken; those that say more come first. A text that quotes
a traceback is judged by the exceptions in it, of a chain by the first of them that is known: what
stands in the code it shows means nothing, and neither do sentences that only guess or advise.

Source: lines of public threads (docs/formats.md); roles after NVIDIA's NVRx taxonomy. Blind spots:
lines in other languages, and texts that a program shortens or words in its own way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from trace_hooks.log_text.context_labels import CONTEXT_LABELS
from trace_hooks.log_text.cuda_labels import CUDA_LABELS
from trace_hooks.log_text.ending_labels import ECHO_LABELS, WEAK_LABELS
from trace_hooks.log_text.label import Label, label, named
from trace_hooks.log_text.machine_labels import HARDWARE_LABELS, SCHEDULER_LABELS
from trace_hooks.log_text.network_labels import NETWORK_LABELS
from trace_hooks.log_text.program_labels import PROGRAM_LABELS
from trace_hooks.log_text.storage_labels import STORAGE_LABELS

LONGEST_TEXT = 8192
"""So much of a text is looked at."""

EXCEPTION = "exception"
COMMUNICATION_EXCEPTION = "communication_exception"
OPTIONAL_MODULE = "optional_module"

_ERROR_LINE = re.compile(
    r"^(?:[\w.]{1,120}\.)?([A-Z]\w{1,80}(?:Error|Exception|NotMet|Exit|Failure|Timeout|Killed)"
    r"|AssertionError|KeyboardInterrupt|StopIteration|SystemExit)(?::|$)"
)
_PREFIX = re.compile(
    r"^(?:\[(?:rank|role|default)\d*:?\d*\]:? ?|\[\d{1,9},\d{1,6}\]<std(?:out|err)>: ?|\d{1,6}: "
    r"|(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)? )?\d{1,3}(?:\.\d{1,3}){3}: ?|> ?"
    r"|\[pod/[\w./-]{1,200}\] ?|[\w.-]{1,60} {1,9}\| ?"
    r"|\(.{1,120}?\bpid=\d{1,9}(?:, ip=[\w.:-]{3,60})?\) ?)+"
)
_OF_CALLER = re.compile(
    r"^ray\.exceptions\.(?:RayTaskError\(|\w+: .{0,80}raised in its creation task)"
)
"""Ray puts this in front of what an actor raised."""
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n")
_INFO = re.compile(r" NCCL INFO ")
_OF_HOOKS = re.compile(r"trace_hooks: hook [\w.]{1,80} failed and .{1,40}, training goes on: ")
"""What the hooks print of an error of their own (recording/account.py): the job goes on."""
_FRAME_OF_HOOKS = re.compile(r"/trace_hooks/(?:sources|recording)/")
"""Wrappers of the hooks around what raised."""

OWN_LABELS = (
    label(
        "optional_module", "context software", "",
        "A module that the program can do without is missing.",
        r"(?:ImportError|ModuleNotFoundError|No module named)..(?:optional|fall(?:ing)? ?back|"
        r"skip|ignor|disabl|not installed|not available|will be slower)|(?:falling back|"
        r"not installed|not available|optional|could not import|failed to import|"
        r"unable to import)..(?:ImportError|ModuleNotFoundError|No module named)|"
        r"is not installed[;,.]..(?:fall|using|install)",
        "importerror", "modulenotfound", "no module named", "not installed",
    ),
    label(
        "communication_exception", "cascade network", "",
        "An exception inside of a collective: another rank or the network made it fail.",
        r"torch/distributed/(?:distributed_c10d|c10d_logger|rendezvous)\.py",
        "torch/distributed/",
    ),
    label(
        "exception", "initiating user_code", "fix_code",
        "The program raised an exception that nothing caught.",
        r"(?m)^(?:[\w.]{1,120}\.)?[A-Z]\w{1,80}(?:Error|Exception)\b",
        "error", "exception",
    ),
)  # fmt: skip

_NOISE = re.compile(
    r"might be caused by|may be caused by|could be (?:caused by|due to|triggered by)"
    r"|can be caused by|CUDA_LAUNCH_BLOCKING|TORCH_USE_CUDA_DSA|(?:this|it) (?:typically|usually"
    r"|often) (?:indicates|means|reflects)|usually (?:reflects|caused by)|It is possible that"
    r"|possible reasons?\b|potential root causes?\b|^\(\d\) |might be asynchronously reported"
    r"|^To suppress this warning|FutureWarning"
    r"|DeprecationWarning|UserWarning|RuntimeWarning|^If you suspect|^Hint:"
    r"|TORCH_SHOW_CPP_STACKTRACES|please (?:set|try|consider|check)|For debugging consider"
    r"|destroy_process_group\(\) was not called|means that (?:this|there) ",
    re.IGNORECASE | re.MULTILINE,
)
"""Sentences with advice or guesses: what they name has not been seen."""

_FIRST = (
    "fabric_manager", "pcie_corrected", "shm_full", "socket_retry", "driver_shutting_down",
    "dataloader_shm", "dataloader_crashed", "dataloader_ended", "write_failed", "driver_mismatch",
    "barrier_peer",
    "closing_workers",
)  # fmt: skip
"""Labels whose texts contain words of others further down."""

_BEFORE_WEAK = ("peer_dump_signal", "store_lost")
_ALL = (
    *HARDWARE_LABELS, *SCHEDULER_LABELS, *NETWORK_LABELS, *CUDA_LABELS, *STORAGE_LABELS,
    *PROGRAM_LABELS,
    *(each for each in ECHO_LABELS if each.name in _BEFORE_WEAK),
    *WEAK_LABELS,
    *(each for each in ECHO_LABELS if each.name not in _BEFORE_WEAK),
    *CONTEXT_LABELS,
)  # fmt: skip
_ORDERED = (
    *(each for each in _ALL if each.name in _FIRST),
    *(each for each in _ALL if each.name not in _FIRST),
)

LABELS = named((*_ORDERED, *OWN_LABELS))
"""Every label by name."""

_HINTS = {"error", "exception", *(hint for each in _ORDERED for hint in each.hints)}
_ANY_HINT = tuple(
    hint for hint in sorted(_HINTS) if not any(other != hint and other in hint for other in _HINTS)
)
"""The shortest ones: what holds another of them needs no look of its own."""
_TRACEBACK = "Traceback (most recent call last)"


def label_of(text: str) -> str:
    """Name of the label of a line or of lines that belong together; '' where nothing is known."""
    text = text[:LONGEST_TEXT] if len(text) <= LONGEST_TEXT else _ends(text)
    if _TRACEBACK in text:
        return _of_traceback(text)
    return _of_lines(text) if may_have_label(text) else ""


def may_have_label(text: str) -> bool:
    """Whether a line holds a word that some label needs: a cheap look before `label_of`."""
    lowered = text.lower()
    return any(hint in lowered for hint in _ANY_HINT)


def _ends(text: str) -> str:
    half = LONGEST_TEXT // 2
    return f"{text[:half]}\n{text[-half:]}"


def _of_lines(text: str) -> str:
    """Of text without a traceback: sentences that only advise are left out."""
    lines = (line for line in text.splitlines() if not _OF_HOOKS.search(line))
    facts = "\n".join(_without_guesses(_PREFIX.sub("", line)) for line in lines)
    found = _first_label(facts)
    if found:
        is_info = "\n" not in text.strip() and _INFO.search(text) is not None
        return "" if is_info and LABELS[found].role == "initiating" else found
    if any(_ERROR_LINE.match(line) for line in facts.splitlines()):
        return EXCEPTION
    return ""


def _without_guesses(line: str) -> str:
    if not _NOISE.search(line):
        return line
    return " ".join(part for part in _SENTENCE.split(line) if not _NOISE.search(part))


def _first_label(text: str) -> str:
    lowered = text.lower()
    if LABELS[OPTIONAL_MODULE].matches(text, lowered):
        return OPTIONAL_MODULE
    return next((each.name for each in _ORDERED if each.matches(text, lowered)), "")


def _of_traceback(text: str) -> str:
    """The first exception of the chain that is known; else that it is one."""
    parts = list(_exceptions(text))
    found = [_first_label(message) for message, _ in parts]
    initiating = [name for name in found if name and LABELS[name].role == "initiating"]
    strong = [name for name in initiating if not LABELS[name].is_weak]
    known = strong or initiating or [name for name in found if name]
    if known:
        return known[0]
    before = text.partition(_TRACEBACK)[0]
    if LABELS[OPTIONAL_MODULE].matches(before + " " + (parts[0][0] if parts else ""), text.lower()):
        return OPTIONAL_MODULE
    if parts and all("torch/distributed/" in frame for _, frame in parts[:1]) and _is_call(parts):
        return COMMUNICATION_EXCEPTION
    return EXCEPTION if parts else ""


def _is_call(parts: list[tuple[str, str]]) -> bool:
    lowered = parts[0][1].lower()
    return LABELS[COMMUNICATION_EXCEPTION].matches(parts[0][1], lowered)


def _exceptions(text: str) -> Iterator[tuple[str, str]]:
    """Message and innermost frame of each exception of the chain, in the order printed."""
    frame, message, caller, is_inside = "", list[str](), "", False
    for raw in text.splitlines():
        line = _PREFIX.sub("", raw)
        if _TRACEBACK in line:
            if message:
                yield "\n".join(message), frame
            frame, message, is_inside = "", [], True
        elif is_inside and line.startswith("  File "):
            frame = frame if _FRAME_OF_HOOKS.search(line) else line
        elif is_inside and _OF_CALLER.match(line):
            caller = line
        elif is_inside and line and not line.startswith(" "):
            message.append(_without_guesses(line))
    if message or caller:
        yield "\n".join(message) or caller, frame


def role_of(name: str) -> str:
    """initiating, context, cascade or teardown; '' for an unknown label."""
    found: Label | None = LABELS.get(name)
    return found.role if found else ""
