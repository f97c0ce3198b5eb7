"""Secrets in lines of logs, replaced before a line is written anywhere.

Sees: keys and tokens in forms that their makers publish, passwords in addresses, and values that
are assigned to names such as API_KEY. Misses: secrets in a form of their own without such a name.
"""

from __future__ import annotations

import re

MASK = "***"

_HINT = re.compile(
    r"(?i)key|token|secret|passw|pwd|credential|bearer|authorization|cookie|://|hf_|sk-|gh[a-z]_"
    r"|github_pat|akia|asia|eyj|xox|glpat|npm_|dop_|aiza"
)
"""What a line with a secret contains: all others cost one search."""

_FORMS = re.compile(
    r"\bhf_[A-Za-z0-9]{20,}"
    r"|\bsk-(?:[A-Za-z]{2,10}-)?[A-Za-z0-9_-]{20,}"
    r"|\bgh[pousr]_[A-Za-z0-9]{30,}|\bgithub_pat_[A-Za-z0-9_]{30,}|\bglpat-[A-Za-z0-9_-]{18,}"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\bxox[abprs]-[A-Za-z0-9-]{10,}|\bnpm_[A-Za-z0-9]{30,}|\bdop_v1_[a-f0-9]{40,}"
    r"|\bAIza[A-Za-z0-9_-]{30,}"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"
)
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[^-]{0,8000}(?:-----END [A-Z ]+-----)?"
)
_KEY_BEGINS = re.compile(r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----")
KEY_ENDS = "-----END "
_OF_KEY = re.compile(r"[A-Za-z0-9+/=]{0,100}|(?:Proc-Type|DEK-Info): .{0,100}|-----END .{0,60}")
_IN_ADDRESS = re.compile(r"(?<=://)([^\s/:@]{0,100}):([^\s/@]{1,200})(?=@)")
_QUERY = re.compile(
    r"(?i)([?&][\w.-]{0,40}(?:token|key|secret|signature|sig|passw(?:or)?d)=)[^\s&\"']+"
)
_ASSIGNED = re.compile(
    r"(?i)(\b[\w.-]{0,40}(?:api_?key|access_?key(?:_?id)?|secret(?:_?key)?|private_?key|"
    r"passw(?:or)?d|pwd|credentials?)[\"']?\s?[=:]\s?)"
    r"(\"[^\"]{1,400}\"|'[^']{1,400}'|[^\s,;&\"'})\]]{4,400})"
)
_TOKEN = re.compile(
    r"(?i)(\b[\w.-]{0,40}token[\"']?\s?[=:]\s?)([\"']?)"
    r"(?=[^\s\"']{0,400}\d)(?=[^\s\"']{0,400}[a-z])[\w./+=~-]{16,400}\2"
)
"""A number or a word of a vocabulary is no secret."""
_HEADER = re.compile(
    r"(?i)\b(authorization[\"']?\s?[:=]\s?[\"']?(?:(?:bearer|basic|token)\s)?)[^\s\"',]{6,}"
)
_BEARER = re.compile(r"(?i)\b(bearer\s+)[A-Za-z0-9._~+/-]{12,}=*")
_COOKIE = re.compile(r"(?i)\b((?:set-)?cookie[\"']?\s?:\s?).{4,}")
_WORDS = frozenset(("none", "null", "true", "false", "not", "set", "missing", "empty", "unset"))


def may_hold_secret(text: str) -> bool:
    """Whether there is a word without which no secret is seen; digits do not matter."""
    return _HINT.search(text) is not None


def begins_key(text: str) -> bool:
    """Whether a private key begins in a line and does not end in it."""
    is_near = "PRIVATE KEY-----" in text and KEY_ENDS not in text
    return is_near and _KEY_BEGINS.search(text) is not None


def is_of_key(line: str) -> bool:
    """Whether a line may be part of the private key that began in a line before."""
    return _OF_KEY.fullmatch(line.strip()) is not None


def masked_start(line: str, most: int) -> str:
    """The first `most` characters of a line, masked before it is cut.

    A secret that begins within them is masked as a whole where it ends within four times as many.
    """
    return line if len(line) <= most else masked(line[: 4 * most])[:most]


def masked(text: str) -> str:
    """The text with `***` in place of secrets; line ends stay."""
    if not may_hold_secret(text):
        return text
    text = _PRIVATE_KEY.sub(MASK, text)
    text = _FORMS.sub(MASK, text)
    text = _IN_ADDRESS.sub(rf"\1:{MASK}", text)
    text = _QUERY.sub(rf"\1{MASK}", text)
    text = _HEADER.sub(rf"\1{MASK}", text)
    text = _BEARER.sub(rf"\1{MASK}", text)
    text = _COOKIE.sub(rf"\1{MASK}", text)
    text = _ASSIGNED.sub(_without_value, text)
    return _TOKEN.sub(rf"\1{MASK}", text)


def _without_value(found: re.Match[str]) -> str:
    value = found[2].strip("\"'")
    return found[0] if value.lower() in _WORDS or value == MASK else f"{found[1]}{MASK}"
