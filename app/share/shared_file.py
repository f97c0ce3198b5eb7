"""A view as one HTML file of at most 2 MB."""

from __future__ import annotations

import re
from dataclasses import dataclass

from app.runs.hub import Hub
from app.share.collected_view import DETAILS, collect
from app.share.document import document
from app.share.shown_view import shown_view
from app.view_state import View
from ingest.errors import UserError
from ingest.stopping import Stop

MOST_BYTES = 2_000_000
_NOT_IN_NAMES = re.compile(r"[^\w.-]+", re.ASCII)


@dataclass(frozen=True)
class SharedFile:
    """Name and content."""

    name: str
    content: bytes


def shared_file(
    hub: Hub, view: View, public_url: str = "", stop: Stop | None = None, most: int = MOST_BYTES
) -> SharedFile:
    """The file, as detailed as `most` bytes allow; raises UserError for an unknown run."""
    shown = shown_view(hub, view, stop)
    finding = shown.finding if view.finding is not None else None
    name = file_name(shown.run_name, finding.id if finding else None)
    for number, detail in enumerate(DETAILS):
        collected = collect(hub, shown, detail, public_url, stop)
        content = document(collected, is_reduced=number > 0).encode()
        if len(content) <= most:
            return SharedFile(name, content)
    raise UserError(f"even the coarsest picture of this view is larger than {most / 1e6:.1f} MB")


def file_name(run: str, finding: str | None) -> str:
    """Name of a file for a run and what it shows."""
    name = f"{run}-{finding}" if finding else run
    return f"rankscope-{_NOT_IN_NAMES.sub('-', name).strip('-')[:120]}.html"
