"""Values no honest file has, in every place of every JSON format: a run or one sentence each."""

from __future__ import annotations

import hashlib
import re
import time
from pathlib import Path

import pytest

from ingest.errors import UserError
from ingest.run import open_run
from tests.hostile.fuzz.seeds import seeds
from tests.hostile.test_claims import JSON_FORMATS
from tests.reader_results import Imported

MOST_S = 10.0
_NUMBER = re.compile(rb"(?<=[:\[, ])-?\d+(?:\.\d+)?(?=[,\]} ])")
_TEXT = re.compile(rb'(?<=: )"[^"\\]*"')
_KEY = re.compile(rb'("[^"\\]+"): ((?:-?[\d.]+)|"[^"\\]*")')

NUMBERS = {
    "NaN": b"NaN",
    "Infinity": b"-Infinity",
    "1e999": b"1e999",
    "above 2^53": b"9007199254740993",
    "2^63": b"9223372036854775808",
    "-2^63": b"-9223372036854775808",
    "2^64": b"18446744073709551616",
    "400 digits": b"9" * 400,
    "negative": b"-1",
    "text": b'"12"',
    "words": b'"soon"',
    "true": b"true",
    "null": b"null",
    "a list": b"[1]",
    "an object": b'{"a": 1}',
    "tiny": b"1e-999",
    "minus zero": b"-0.0",
    "many decimals": b"1." + b"3" * 200,
}
TEXTS = {
    "control characters": b'"\\u0000\\u001b[2J\\n"',
    "raw control characters": b'"\x01\x1b[2J\n"',
    "no UTF-8": b'"\xff\xfe\xc3\x28"',
    "half a surrogate": b'"\\ud800"',
    "empty": b'""',
    "long": b'"' + b"x" * 300_000 + b'"',
    "markup": b'"<script>alert(1)</script>"',
    "right to left": '"\u202e\u2066"'.encode(),
    "a number": b"7",
    "a list": b"[]",
}


def good(kind: str) -> tuple[str, bytes]:
    files = [f for f in seeds()[kind] if f[1].lstrip()[:1] in (b"{", b"[")]
    if not files:
        pytest.skip("the seed of this format is a real trace, which is not here")
    return files[0]


def every(pattern: re.Pattern[bytes], content: bytes, value: bytes, nth: int) -> bytes:
    """`content` with every nth match replaced."""
    number = 0

    def other(match: re.Match[bytes]) -> bytes:
        nonlocal number
        number += 1
        return match[0] if number % nth else value

    return pattern.sub(other, content)


_READABLE: set[bytes] = set()
"""Digests of runs that could be read: half of the values become the same run, of unknowns."""


def digest(run: Path) -> bytes:
    """Of the files of a run but those that record when and from where it was imported."""
    digest_of_all = hashlib.blake2b()
    for path in sorted([*run.glob("segments/*"), *run.glob("ranks/*")]):
        digest_of_all.update(path.name.encode() + path.read_bytes())
    return digest_of_all.digest()


def ends_well(path: Path, content: bytes, runs: Path) -> None:
    path.write_bytes(content)
    begin_s = time.process_time()
    messages: list[str] = []
    try:
        run = Imported(path, into=runs)
        messages = [*run.problems, *run.guesses]
        if (files := digest(run.folder)) not in _READABLE:
            with open_run(run.folder) as opened:  # what was written can be read
                messages += opened.problems
            _READABLE.add(files)
    except UserError as error:
        messages = [str(error)]
    assert all(text.isprintable() for text in messages)
    assert not [text for text in messages if "reader failed" in text or "set aside" in text]
    assert time.process_time() - begin_s < MOST_S


@pytest.mark.sampled(every=15)
@pytest.mark.parametrize("nth", [3])
@pytest.mark.parametrize("value", NUMBERS)
@pytest.mark.parametrize("kind", JSON_FORMATS)
def test_numbers(kind: str, value: str, nth: int, tmp_path: Path, runs: Path) -> None:
    name, content = good(kind)
    ends_well(tmp_path / name, every(_NUMBER, content, NUMBERS[value], nth), runs)


@pytest.mark.sampled(every=15)
@pytest.mark.parametrize("nth", [2])
@pytest.mark.parametrize("value", TEXTS)
@pytest.mark.parametrize("kind", JSON_FORMATS)
def test_texts(kind: str, value: str, nth: int, tmp_path: Path, runs: Path) -> None:
    name, content = good(kind)
    ends_well(tmp_path / name, every(_TEXT, content, TEXTS[value], nth), runs)


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("kind", JSON_FORMATS)
def test_keys_that_come_twice(kind: str, tmp_path: Path, runs: Path) -> None:
    name, content = good(kind)
    ends_well(tmp_path / name, _KEY.sub(rb"\1: null, \1: \2, \1: \2", content), runs)
