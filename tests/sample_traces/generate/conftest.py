"""A synthetic job without faults."""

from pathlib import Path

import pytest

from tests.sample_traces.generate.generated import made


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("healthy") / "run")
