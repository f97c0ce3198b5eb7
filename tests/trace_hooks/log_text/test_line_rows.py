"""Rows of what a stream writes: tracebacks whole, progress bars once, bounded, private."""

from __future__ import annotations

import pytest

from trace_hooks.log_text.line_rows import (
    LONGEST_LINE,
    LONGEST_TEXT,
    MOST_AT_ONCE,
    LineRows,
    level_of,
)

S = 1_000_000_000
CHAIN = """Traceback (most recent call last):
  File "a.py", line 1, in <module>
    f()
KeyError: 3

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 3, in <module>
    g()
ValueError: bad batch 7
"""


def rows_of(*pieces: str, keeps_all: bool = True) -> list[dict[str, object]]:
    made = LineRows("stderr", "stderr", keeps_all)
    for number, piece in enumerate(pieces):
        made.add(piece, number)
    return made.take(len(pieces), is_over=True)


def test_lines_that_come_in_pieces() -> None:
    first, second = rows_of("step 1", " done\nst", "ep 2 done")
    assert (first["text"], first["line"], first["ts_ns"]) == ("step 1 done", 1, 1)
    assert (second["text"], second["line"]) == ("step 2 done", 2)


@pytest.mark.parametrize("prefix", ["", "[rank3]: "])
def test_a_chain_of_tracebacks_is_one_row(prefix: str) -> None:
    text = "".join(f"{prefix}{line}\n" for line in CHAIN.splitlines())
    before, traceback, after = rows_of("begin\n", text, "end\n")
    assert (before["text"], after["text"], after["line"]) == ("begin", "end", 13)
    assert (traceback["level"], traceback["line"]) == ("error", 2)
    assert traceback["text"] == CHAIN.strip()
    assert traceback["label"] == "exception"


def test_a_logger_may_stand_in_front_of_a_traceback() -> None:
    before, traceback, after = rows_of(
        "begin\n", f"2026-05-02 08:00:01 ERROR a.py: {CHAIN}", "end\n"
    )
    assert (before["text"], after["text"]) == ("begin", "end")
    assert (traceback["level"], traceback["label"]) == ("error", "exception")
    assert traceback["template"].startswith("<time> ERROR a.py: Traceback: ")


def test_a_traceback_is_told_although_nothing_follows() -> None:
    made = LineRows("stderr", "stderr", False)
    made.add(CHAIN, 1 * S)
    assert made.take(2 * S) == []
    assert len(made.take(4 * S)) == 1


def test_a_progress_bar_is_its_last_state() -> None:
    (row,) = rows_of("  9%|9   | 1/10\r", " 50%|5   | 5/10\r\x1b[32m100%|##| 10/10\x1b[0m\n")
    assert row["text"] == "100%|##| 10/10"


def test_without_consent_only_errors_and_known_lines_are_kept() -> None:
    printed = "sample: dear diary\nRuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    printed += "2026-01-01 ERROR cannot go on\n"
    kept = rows_of(printed, keeps_all=False)
    assert [row["label"] for row in kept] == ["cuda_out_of_memory", ""]
    assert len(rows_of(printed)) == 3


def test_secrets_are_masked() -> None:
    (row,) = rows_of("ERROR login with api_key=abcdef123456 failed\n")
    assert "abcdef123456" not in f"{row}"


def test_floods_and_long_lines_are_bounded() -> None:
    made = LineRows("stdout", "stdout", True)
    made.add("x\n" * (MOST_AT_ONCE + 500), 1 * S)
    assert len(made.take(1 * S)) == MOST_AT_ONCE
    made.add("y\n", 3 * S)
    (row,) = made.take(3 * S)
    assert row["count"] == 501  # it stands for those that were left out
    (row,) = rows_of("z" * 100_000)
    assert len(str(row["text"])) <= LONGEST_TEXT


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("2026-01-01 12:00:00 WARNING low", "warning"),
        ("CRITICAL: stop", "fatal"),
        ("NCCL WARN Call to ibv_modify_qp failed", "warning"),
        ("no error here", ""),
        (CHAIN, "error"),
    ],
)
def test_levels(text: str, level: str) -> None:
    assert level_of(text) == level


def test_a_secret_across_the_cut_of_a_long_line_leaves_nothing() -> None:
    secret = "hf_" + "AbCdEfGhIjKlMnOpQrStUvWx"
    for before in range(LONGEST_LINE - len(secret), LONGEST_LINE + 2):
        (row,) = rows_of("x" * (before - 1) + " " + secret + " y" * 50 + "\n")
        assert "hf_A" not in str(row["text"])
        assert len(str(row["text"])) <= LONGEST_LINE


def test_a_private_key_of_many_lines_leaves_nothing() -> None:
    body = ["MIIEvQIBADANBgkqhkiG9w0BAQEFAASC" * 2] * 5
    lines = ["-----BEGIN PRIVATE KEY-----", *body, "-----END PRIVATE KEY-----", "epoch 2"]
    rows = rows_of("[rank3]: begin\n", *(f"[rank3]: {line}\n" for line in lines))
    assert [row["text"] for row in rows] == ["[rank3]: begin", "[rank3]: ***", "[rank3]: epoch 2"]


def test_what_a_loaders_process_raised_belongs_to_the_traceback() -> None:
    text = (
        'Traceback (most recent call last):\n  File "t.py", line 9, in f\n'
        "KeyError: Caught KeyError in DataLoader worker process 4.\n"
        'Original Traceback (most recent call last):\n  File "d.py", line 3, in g\nKeyError: 7\n'
    )
    block, after = rows_of(f"{text}\nstep 9\n")
    assert (block["text"], after["text"]) == (text.strip(), "step 9")


def test_what_an_actor_raised_belongs_to_the_traceback() -> None:
    again = "During handling of the above exception, another exception occurred:"
    actor = f"ray::Trainer.save() (pid=41)\n{CHAIN.partition(chr(10))[2]}"
    text = f"{CHAIN}\n{again}\n\n{actor}"
    (row,) = rows_of(text)
    assert row["text"] == text.strip()


def test_marks_of_other_processes_do_not_end_a_traceback() -> None:
    """Several write into one stream: their lines are torn where Python marks columns."""
    text = (
        'Traceback (most recent call last):\n  File "a.py", line 1\n^^^  File "a.py", line 1\n^\n'
    )
    (block,) = rows_of(f"{text}\nKeyError: 7\n")
    assert block["text"] == f"{text}\nKeyError: 7"
