"""What shows that text is a log: times, beginnings of lines that no other text has, or its name."""

from __future__ import annotations

import re

from ingest.readers.logs.error_file import error_in
from ingest.readers.logs.heads import is_records
from ingest.readers.logs.timestamps import has_time

_LOOKED_AT = 1 << 16
_LOOKED_AT_LINES = 200
_FEWEST_TIMED = 0.1
"""Share of lines that have a time."""
_MOST_DAMAGED = 0.02
"""Share of characters that no text has."""

_NAME = re.compile(
    r"(?i)\.(?:log|out|err)(?:[.-]\d{1,8})*(?:\.gz)?$"
    r"|(?:^|[/._-])(?:log|stdout|stderr|dmesg)(?:\.txt)?(?:\.gz)?$"
)
_LABEL = r"^(?: {0,5}\d{1,6}: ?|\[[a-z]{1,20}\d{1,6}\]:? ?|\[pod/\S{1,300}\] )?"
_SIGNS = re.compile(
    r"^\[(?:rank|role|default)\d{1,6}\]|^\[pod/\S{1,300}\] "
    rf"|{_LABEL}Traceback \(most recent call last\)"
    rf"|{_LABEL}[\[(<]?(?:DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL|CRITICAL)(?:[\])>]|:| - | \|)"
    rf"|{_LABEL}(?:srun|slurmstepd|sbatch|salloc): "
    r"|^.{0,160}\b(?:NCCL (?:INFO|WARN|TRACE|version)|NVRM: |Killed process \d)",
    re.MULTILINE,
)
_NO_TEXT = re.compile("[\x00-\x06\x0e-\x1a\x1c-\x1f\ufffd]")
_MARKUP = re.compile(r"<(?!(?:class|function|module|bound method|built-in) )[A-Za-z!?/]")
"""Of documents; a log may begin with an object of Python's as it shows itself."""
_JSON = re.compile(r"\{\s*(?:[\"{\[}]|$)")
"""Of JSON, and not what Python shows of a dict whose keys are strings."""


def is_log(name: str, head: bytes) -> bool:
    """Whether the beginning of a file, or its name where it is text, shows that it is a log.

    Blocks of NUL bytes, as a crash of a host leaves them, are passed over.
    """
    if is_records(head) or error_in(head) is not None:
        return True
    text = head[:_LOOKED_AT].replace(b"\0", b"").decode("utf-8", "replace")
    lines = [line for line in text.splitlines() if line.strip()][:_LOOKED_AT_LINES]
    if not lines or _JSON.match(lines[0].lstrip()) or _MARKUP.match(lines[0].lstrip()):
        return False
    if len(_NO_TEXT.findall(text)) > _MOST_DAMAGED * len(text):
        return False
    num_timed = sum(map(has_time, lines))
    if num_timed >= max(1, _FEWEST_TIMED * len(lines)) or _SIGNS.search(text):
        return True
    return is_named_like_log(name)


def is_named_like_log(name: str) -> bool:
    """Whether a file's name is one that logs have."""
    return _NAME.search(name) is not None
