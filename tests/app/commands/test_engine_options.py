"""--engine, --master and --spark-conf: what can be said without a cluster."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.app.commands.test_query import output_of
from tests.runs_builder import two_rank_run

HAS_SPARK = importlib.util.find_spec("pyspark") is not None


@pytest.mark.parametrize("option", ["--master=local", "--spark-conf=spark.executor.memory=1g"])
def test_options_of_spark_ask_for_the_engine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    two_rank_run(tmp_path / "a")
    assert "belong to --engine spark" in output_of(capsys, "index", tmp_path / "a", option, code=2)


def test_a_setting_has_a_key_and_a_value(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two_rank_run(tmp_path / "a")
    options = ("--engine", "spark", "--spark-conf", "spark.executor.memory")
    assert "give KEY=VALUE" in output_of(capsys, "index", tmp_path / "a", *options, code=2)


@pytest.mark.skipif(HAS_SPARK, reason="Spark is installed here")
def test_without_spark_the_verb_says_how_to_get_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two_rank_run(tmp_path / "a")
    said = output_of(capsys, "index", tmp_path / "a", "--engine", "spark", code=2)
    assert "pip install 'rankscope[spark]'" in said
