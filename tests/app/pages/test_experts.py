"""Which runs have the tab Experts."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from app.pages.experts import has_data
from app.runs.hub import Hub
from tests.expert_runs import expert_run
from tests.runs_builder import T0, RunBuilder


def test_jobs_and_imports_with_experts_have_the_tab(tmp_path: Path) -> None:
    expert_run(tmp_path / "moe", num_steps=1)
    RunBuilder(tmp_path / "dense", 1).rank_files()
    RunBuilder(tmp_path / "import", 1, source="megascan").rank_files()
    routed = RunBuilder(tmp_path / "import_moe", 1, source="megascan")
    routed.add("expert_load", 0, 0, ts_ns=T0, chunk=-1, layer=0, name="gate", top_k=1,
               batch_tokens=3, tokens=[1, 2], dropped=0, first_expert=-1,
               local_experts=-1)  # fmt: skip
    routed.rank_files()
    routed.publish()
    with closing(Hub(tmp_path)) as hub:
        found = {name: has_data(hub, name) for name in ("moe", "dense", "import", "import_moe")}
    assert found == {"moe": True, "dense": True, "import": False, "import_moe": True}
