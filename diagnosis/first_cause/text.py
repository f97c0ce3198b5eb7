"""What a first cause is said to be, in sentences."""

from __future__ import annotations

from collections.abc import Iterable

from diagnosis.first_cause.cause import FirstCause
from diagnosis.first_cause.facts import quoted, user_frames
from diagnosis.first_cause.lines import Line
from diagnosis.stuck.text import named

ADVICE = {
    "": "Look at the lines around it.",
    "restart": "Restart the job.",
    "cordon_node": "Take the node out of service (cordon_node), and restart without it.",
    "reset_gpu": "Drain the node and reset its GPUs (reset_gpu), then restart.",
    "fix_code": "Fix the program or its input before a restart (fix_code).",
    "raise_limit": "Raise the limit (raise_limit), then restart.",
    "fix_setting": "Correct the setting (fix_setting), then restart.",
}

_LONGEST = 160


def title_of(cause: FirstCause) -> str:
    """Who failed with what."""
    what = shown(cause.line)
    if cause.why:
        return f"The others waited for {named(cause.ranks)}"
    if cause.ranks:
        where = f" on {cause.hosts[0]}" if cause.hosts else ""
        return f"{_capital(named(cause.ranks))}{where} failed first: {what}"
    if cause.hosts:
        return f"Host {cause.hosts[0]} failed first: {what}"
    if cause.of_all and len({line.rank for line in cause.equal} - {-1}) > 1:
        return f"All ranks failed alike: {what}"
    return f"The job failed with: {what}"


def text_of(cause: FirstCause) -> str:
    """Two or three sentences: the line, where it stands, and how many others followed."""
    lead = f"{_capital(cause.why)}. " if cause.why else ""
    frames = user_frames(cause.line.text)
    at = f" It was raised at {frames[-1]}." if frames else ""
    alike = len({line.rank for line in cause.equal if line.rank >= 0})
    many = f" {alike} ranks have it; which was first does not matter."
    many = many if cause.of_all and alike > 1 else ""
    what = f"{shown(cause.line)} ({cause.line.where()})"
    return f"{lead}The first line that explains it: {what}.{at}{many}"


def shown(line: Line, longest: int = _LONGEST) -> str:
    """The line, shortened."""
    text = quoted(line.text, line.label)
    return text if len(text) <= longest else text[: longest - 3] + "..."


def next_step_of(cause: FirstCause) -> str:
    """The advice with its reason."""
    if _is_busy(cause):
        return (
            "Let all ranks wait as long as that takes (a longer timeout of the process group), or"
            " do it before the group is made (fix_setting); a collective inside rank 0's branch"
            " must leave it (fix_code)."
        )
    if cause.why:
        return (
            "Restart the job (restart), and look at what that rank did instead: a branch that only"
            " it takes, its loader, its host. With the hooks on, its stack is recorded."
        )
    label = cause.line.label
    advice, reason = (label.advice, label.reason) if label else ("", "")
    return f"{ADVICE[advice]} {reason}".strip()


def advice_of(cause: FirstCause) -> str:
    """restart, cordon_node, reset_gpu, fix_code, raise_limit, fix_setting, or ''."""
    if cause.why:
        return "fix_setting" if _is_busy(cause) else "restart"
    return cause.line.label.advice if cause.line.label else ""


def _is_busy(cause: FirstCause) -> bool:
    """Whether the others waited for a rank whose log says what it did alone."""
    return bool(cause.why) and cause.line.role == "context"


def alternatives_of(cause: FirstCause, settings: Iterable[Line]) -> tuple[str, ...]:
    """Lines that cannot be ruled out, and settings that the logs show."""
    rivals = [
        f"{_where(line)}: {shown(line)} ({line.where()}): the clocks do not tell which was first."
        for line in cause.rivals[:3]
    ]
    advised = {line.name: line.label.reason for line in settings if line.label}
    return (*rivals, *advised.values())


def _where(line: Line) -> str:
    if line.rank >= 0:
        return f"Rank {line.rank}"
    return f"Host {line.host}" if line.host else "The job"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
