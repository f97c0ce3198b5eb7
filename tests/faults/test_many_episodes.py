"""One cause that came thousands of times: pages, the share and the command line stay usable."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.faults.many_episodes import run_with_episodes
from tests.faults.serving import ROUNDS, Server, serving

NUM = 10_000 if ROUNDS >= 20 else 500
"""500 take seconds; the build of the diagnosis grows with their steps."""
MOST_BYTES = 2_000_000
"""What a browser builds at once without being felt."""
JSON = {"Content-Type": "application/json"}
RANKSCOPE = [sys.executable, "-c", "import sys; from app.cli import main; sys.exit(main())"]
FOUND = 3
"""Exit code of `diagnose` where there are findings."""


def called_back(server: Server, output: str, path: str) -> bytes:
    """What a callback of Dash draws for a page."""
    known = server.json("/_dash-dependencies")
    wanted = next(one for one in known if output in one["output"])
    address = {"pathname": path, "search": ""}
    parts = [one.split(".") for one in wanted["output"].strip(".").split("...")]
    outputs = [{"id": name, "property": what} for name, what in parts]

    def filled(given: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [one | {"value": address.get(one["property"])} for one in given]

    body = {
        "output": wanted["output"],
        "outputs": outputs if len(outputs) > 1 else outputs[0],
        "inputs": filled(wanted["inputs"]),
        "state": filled(wanted["state"]),
        "changedPropIds": ["url.pathname"],
    }
    status, answer = server.ask(
        "/_dash-update-component", "POST", json.dumps(body).encode(), **JSON
    )
    assert status == 200, answer
    return answer


@pytest.mark.faults
def test_thousands_of_episodes_are_one_finding(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    run_with_episodes(runs / "job", NUM)
    with serving(runs, tmp_path) as server:
        (finding,) = server.json("/api/run/job/findings")["findings"]
        assert len(finding["episodes"]) == NUM
        for page in ("overview", "timeline", "ranks", "query"):
            assert server.ask(f"/run/job/{page}")[0] == 200
        drawn = called_back(server, "banner-place.children", "/run/job/overview")
        assert len(drawn) < MOST_BYTES
        assert f"It came {NUM} times" in drawn.decode()
        count = called_back(server, "findings-count.children", "/run/job/overview").decode()
        assert "1 finding" in count
        status, strip = server.ask("/api/run/job/strip")
        assert (status, len(strip) < MOST_BYTES) == (200, True)
        status, shared = server.ask("/api/run/job/share")
        assert (status, len(shared) < MOST_BYTES) == (200, True)
    done = subprocess.run(
        [*RANKSCOPE, "diagnose", runs / "job"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (FOUND, "")
    assert f"It came {NUM} times" in done.stdout
    assert len(done.stdout) < MOST_BYTES / 10
