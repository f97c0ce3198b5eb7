"""A run with thousands of findings: its pages, the share and the command line stay usable."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.faults.many_findings import run_with_findings
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
def test_thousands_of_findings(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    run_with_findings(runs / "job", NUM)
    with serving(runs, tmp_path) as server:
        findings = server.json("/api/run/job/findings")["findings"]
        assert len(findings) == len({one["id"] for one in findings}) == NUM
        for page in ("overview", "timeline", "ranks", "query"):
            assert server.ask(f"/run/job/{page}")[0] == 200
        drawn = called_back(server, "banner-place.children", "/run/job/overview")
        assert len(drawn) < MOST_BYTES
        assert f"1 of {NUM}" in drawn.decode()
        assert (
            f"{NUM} findings"
            in called_back(server, "findings-count.children", "/run/job/overview").decode()
        )
        status, strip = server.ask("/api/run/job/strip")
        assert (status, strip.count(b"gc_pauses-0-job-")) == (200, NUM)
        status, shared = server.ask("/api/run/job/share")
        assert (status, len(shared) < MOST_BYTES) == (200, True)
    done = subprocess.run(
        [*RANKSCOPE, "diagnose", runs / "job"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (FOUND, "")
    assert done.stdout.count("  evidence    ") >= NUM
