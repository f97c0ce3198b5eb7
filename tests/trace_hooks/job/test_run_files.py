"""run.json and the rank files: what they say of a model, which attempt is next."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trace_hooks.job.run_files import describe_model
from trace_hooks.schema import publish_json


@pytest.mark.parametrize("model", [{"dtype": print}, {1: {(2,): 3}}, {"shape": (1, 2)}, object()])
def test_a_model_that_is_not_json_costs_no_data(tmp_path: Path, model: Any) -> None:
    described = describe_model(model)
    publish_json(described, tmp_path / "model.json")
    assert json.loads((tmp_path / "model.json").read_text()) == described
