"""Who looks at the jobs of this package: a server as a browser sees it, or the library.

Both give whether ranks are reported to wait, and the findings about hangs, deaths and first errors.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import NamedTuple, Protocol

from app.analysis.diagnosis import diagnose_run
from app.views.stuck import stuck_of
from diagnosis.detectors import dead_rank, first_error, stuck
from ingest.errors import UserError
from ingest.run import open_run

KINDS = (*stuck.KINDS, *dead_rank.KINDS, *first_error.KINDS)
_SLOWEST_S = 30.0
_ADDRESS = re.compile(r"http://[\d.]+:\d+")


class Named(NamedTuple):
    """A finding: its kind, and the global ranks that it names."""

    kind: str
    ranks: tuple[int, ...]


class Viewer(Protocol):
    """Looks at one run."""

    def waits(self) -> bool:
        """Whether some rank is reported to wait for another."""

    def findings(self) -> list[Named]:
        """What is reported of hangs, deaths and first errors; empty where there is no run yet."""

    def close(self) -> None:
        """End what it runs."""


class Library:
    """Opens the run folder afresh at each look, as `rankscope diagnose` does."""

    def __init__(self, run: Path) -> None:
        self._run = run

    def waits(self) -> bool:
        """Of the run folder."""
        try:
            with open_run(self._run) as opened:
                return stuck_of(opened, None).state == "stuck"
        except UserError:  # the run folder is being made
            return False

    def findings(self) -> list[Named]:
        """Of the run folder."""
        try:
            with open_run(self._run) as opened:
                diagnosis = diagnose_run(opened)
        except UserError:  # the run folder is being made
            return []
        return [
            Named(one.kind, tuple(place.rank for place in one.culprits))
            for one in diagnosis.findings
            if one.kind in KINDS
        ]

    def close(self) -> None:
        """Nothing runs."""


class Server:
    """`rankscope serve`, polled over HTTP as the page Stuck does."""

    def __init__(self, run: Path) -> None:
        command = [sys.executable, "-c", "from app.cli import main; main()", "serve"]
        run.parent.mkdir(exist_ok=True)
        self._process = subprocess.Popen(
            [*command, str(run.parent), "--port", "0"], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if match := _ADDRESS.search(line):
                self._of_run = f"{match[0]}/api/run/{run.name}"
                return
        raise SystemExit("the server printed no address")

    def waits(self) -> bool:
        """As the page Stuck shows it."""
        return bool(self._get("stuck").get("state") == "stuck")

    def findings(self) -> list[Named]:
        """As the drawer lists them."""
        listed = self._get("findings").get("findings", [])
        found = [Named(one["kind"], tuple(one["culprit_ranks"])) for one in listed]
        return [one for one in found if one.kind in KINDS]

    def _get(self, name: str) -> dict[str, object]:
        address = f"{self._of_run}/{name}"
        try:
            with urllib.request.urlopen(address, timeout=_SLOWEST_S) as answer:
                return dict(json.load(answer))
        except (urllib.error.URLError, TimeoutError):  # not known yet, or the machine is too busy
            return {}

    def close(self) -> None:
        """Stop the server."""
        self._process.terminate()
        self._process.wait()
