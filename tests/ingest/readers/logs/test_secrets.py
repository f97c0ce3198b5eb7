"""No secret of a log reaches a run, wherever in the log it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ingest.readers.logs.log_files import lines_of, write_logs
from tests.reader_results import Imported

BODY = "AbCdEfGhIjKlMnOpQrSt0123456789"
SECRETS = {
    "a token of Hugging Face": (f"login with hf_{BODY} done", f"hf_{BODY}"),
    "a key of AWS": ("using AKIAABCDEFGHIJKLMNOP done", "AKIAABCDEFGHIJKLMNOP"),
    "the secret of AWS": (f"AWS_SECRET_ACCESS_KEY={BODY} done", BODY),
    "a bearer token": (f"header Authorization: Bearer {BODY} done", BODY),
    "a password in an address": (f"fetch https://me:{BODY}@host/data done", BODY),
    "a key in an address": (f"GET https://host/a?api_key={BODY}&x=1 done", BODY),
}


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("form", ["line", "traceback", "end of a long line", "json", "usual"])
def test_secrets_are_masked(folder: Path, runs: Path, name: str, form: str) -> None:
    text, secret = SECRETS[name]
    log = f"[rank0]: {text}\n"
    if form == "traceback":
        log = f"Traceback (most recent call last):\n  File 'x'\nValueError: {text}\n"
    elif form == "end of a long line":
        log = f"[rank0]: {'x' * (2048 - text.index(secret) - 10)} {text}\n"
    elif form == "json":
        quoted = text.replace('"', "'")
        log = f'{{"__REALTIME_TIMESTAMP": "1776099080000000", "MESSAGE": "{quoted}"}}\n'
    elif form == "usual":
        log = "".join(f"[rank0]: {n} {text}\n" for n in range(600))
    run = Imported(write_logs(folder, {"a.log": log}), into=runs)
    lines = lines_of(run)
    assert lines
    written = repr([run.rows("log_lines", "text", "template", "file", "host"), run.info])
    assert secret not in written
    assert secret[:12] not in written
    if form != "end of a long line":
        assert "***" in written


def test_a_private_key_of_many_lines(folder: Path, runs: Path) -> None:
    body = "\n".join(f"{BODY}{n:02}" for n in range(20))
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----"
    lines = lines_of(
        Imported(write_logs(folder, {"a.log": f"INFO: a\n{key}\nINFO: b\n"}), into=runs)
    )
    assert [line.text for line in lines] == ["INFO: a", "***", "INFO: b"]


def test_a_key_that_breaks_off_hides_no_other_line(folder: Path, runs: Path) -> None:
    log = f"-----BEGIN PRIVATE KEY-----\n{BODY}\nINFO: the rest is here\n"
    lines = lines_of(Imported(write_logs(folder, {"a.log": log}), into=runs))
    assert [line.text for line in lines] == ["***", "INFO: the rest is here"]
