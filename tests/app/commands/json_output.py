"""Commands run with --json."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.cli import main


def json_of(capsys: pytest.CaptureFixture[str], *command: object) -> dict[str, Any]:
    """What a command prints: one object on one line, and nothing else."""
    assert main([*map(str, command), "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.count("\n") == 1
    answer: dict[str, Any] = json.loads(out)
    return answer
