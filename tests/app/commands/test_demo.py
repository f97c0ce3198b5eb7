"""rankscope demo: what it refuses before it starts anything."""

from __future__ import annotations

import pytest

from app.cli import main


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--replay", "--fault", "hang"], "leave out --fault or --replay"),
        (["--steps", "0"], "give a whole number from 1"),
        (["--fault", "nonsense"], "nonsense"),
        (["--fault", "slow-rank=9,x=2"], "rank 9 of 8"),
        (["--fault", "slow-rank=5,x=2,from=99"], "begins in step 99"),
        (["--replay", "--port", "70000"], "--port is 70000"),
    ],
)
def test_wrong_arguments_are_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--no-browser", *arguments]) == 2
    assert sentence in capsys.readouterr().err
