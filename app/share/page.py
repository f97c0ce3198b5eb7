"""A view as one file of at most 2 MB."""

from __future__ import annotations

from app.runs.hub import Hub
from app.share.content import DETAILS, collect
from app.share.document import document
from app.view_state import View
from ingest.errors import UserError
from ingest.stopping import Stop

MOST_BYTES = 2_000_000


def shared_page(
    hub: Hub, view: View, public_url: str = "", stop: Stop | None = None, most: int = MOST_BYTES
) -> bytes:
    """The file, as detailed as `most` bytes allow; raises UserError for an unknown run."""
    for number, detail in enumerate(DETAILS):
        page = document(collect(hub, view, detail, public_url, stop), number > 0).encode()
        if len(page) <= most:
            return page
    raise UserError(f"even the coarsest picture of this view is larger than {most / 1e6:.1f} MB")
