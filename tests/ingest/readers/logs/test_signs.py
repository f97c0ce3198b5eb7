"""Which files are logs: their times, their beginnings of lines, their names; no other text."""

from __future__ import annotations

import pytest

from ingest.readers.logs.signs import is_log, is_named_like_log

LOGS = {
    "a time": "2026-04-13 16:51:20 - step 1",
    "few lines with times": "2026-04-13 16:51:20 begin\n" + "loss 2.5\n" * 9,
    "a rank": "[rank3]: loss 2.5",
    "a local rank": "[default0]:loss 2.5",
    "a traceback": "begin\nTraceback (most recent call last):\n  File",
    "a level": "INFO:root:begin",
    "a level in brackets": "[ERROR] bad",
    "srun": "srun: job 1 queued",
    "NCCL": "node1:77:80 [0] NCCL INFO Bootstrap: eth0",
    "NCCL's version": "NCCL version 2.27.5+cuda12.9",
    "the kernel's own time": "[ 4000.318492] NVRM: loading",
    "its raw form": "<6>[ 4000.318492] NVRM: loading",
    "a label of srun": "0: INFO: a\n1: INFO: b",
    "kubectl": "[pod/a-0/main] loss 2.5",
    "JSON of the journal": '{"_HOSTNAME": "a", "__REALTIME_TIMESTAMP": "1"}',
    "a dict that a trainer prints": "{'loss': 0.41, 'epoch': 0.5}\n{'loss': 0.4}\nINFO: step 9",
    "an object that a program prints": "<class 'data.Shuffler'>: begins\n[INFO] step 1",
    "an error file": '{"message": {"message": "a", "extraInfo": {}}}',
}
OTHERS = {
    "prose": "The run was slow. We restarted it at noon.",
    "a script": "import torch.distributed as dist\nlogging.basicConfig(level=logging.INFO)\n",
    "settings": "log_level: INFO\nnccl_debug: WARN\nbatch: 4\n",
    "JSON": '{"time": "2026-04-13 16:51:20"}',
    "JSON of many lines": '{\n  "time": "2026-04-13 16:51:20"\n}',
    "JSON lines": '{"message": "a", "level": "INFO"}\n{"message": "b"}',
    "markup": "<!-- 2026-04-13 16:51:20 -->\n<html>",
    "one time in much text": "2026-04-13 16:51:20\n" + "word\n" * 60,
    "a database": "SQLite format 3\0\x10\0\x01\x01\0\x40\x20 2026-04-13 16:51:20",
    "nothing": " \n\0\0\n",
}


@pytest.mark.parametrize("name", LOGS)
def test_logs(name: str) -> None:
    assert is_log("x", LOGS[name].encode())


@pytest.mark.parametrize("name", OTHERS)
def test_others(name: str) -> None:
    assert not is_log("x", OTHERS[name].encode())


@pytest.mark.parametrize(
    "name", ["train.log", "a/kern.log.2.gz", "slurm-1.out", "x.err", "log.txt", "a/stdout", "dmesg"]
)
def test_text_of_such_a_name_is_a_log(name: str) -> None:
    assert is_named_like_log(name)
    assert is_log(name, b"loss 2.5")
    assert not is_log(name, bytes(range(256)))


@pytest.mark.parametrize("name", ["catalog.txt", "log.json", "logs/notes.md", "a.outline", "blog"])
def test_other_names_are_not_enough(name: str) -> None:
    assert not is_named_like_log(name)


def test_a_log_after_a_crash_is_one() -> None:
    """A block of NUL bytes in front of the text, as of a file that was cut while open."""
    assert is_log("x", b"\0" * 4096 + b"2026-04-13 16:51:20 - step 1\n")
