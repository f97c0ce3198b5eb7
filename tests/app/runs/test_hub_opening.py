"""A run that several requests ask for at once is opened once, and all of them see it."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from app.runs.hub import Hub
from sample_traces import RECORDED


def test_first_requests_at_once_all_find_the_index(tmp_path: Path) -> None:
    shutil.copytree(RECORDED / "healthy", tmp_path / "healthy")
    hub = Hub(tmp_path)
    try:
        with ThreadPoolExecutor(6) as pool:
            runs = list(pool.map(hub.run, ["healthy"] * 6))
        assert len({id(run) for run in runs}) == 1
        assert runs[0].newest_attempt == 0  # asks the snapshot: "not indexed yet" before
    finally:
        hub.close()
