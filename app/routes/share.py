"""A view as one HTML file to store or send."""

from __future__ import annotations

import re

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.analysis.diagnosis import diagnosis_of
from app.components.banner import chosen
from app.runs.hub import Hub
from app.share.page import shared_page
from app.view_state import PAGES, View, parse_url
from app.web.answers import answer
from app.web.request_queue import RequestQueue
from ingest.stopping import Stop

_NOT_IN_NAMES = re.compile(r"[^\w.-]+", re.ASCII)


def file_name(run: str, finding: str | None) -> str:
    """Name of the file for a run and the finding that it shows."""
    name = f"{run}-{finding}" if finding else run
    return f"rankscope-{_NOT_IN_NAMES.sub('-', name).strip('-')[:120]}.html"


def shown_finding(hub: Hub, view: View) -> str | None:
    """Id of the finding that the file of a view shows, None if the view names none."""
    if view.run is None or view.finding is None:
        return None
    finding = chosen(diagnosis_of(hub, view.run, view.attempt), view.finding)
    return finding.id if finding else None


def routes(hub: Hub, queue: RequestQueue, public_url: str = "") -> list[Route]:
    """GET api/run/RUN/share?page=...&<fields of the view>: the file as a download."""

    async def share(request: Request) -> Response:
        name = request.path_params["run"]
        page = request.query_params.get("page", PAGES[0])
        view, _ = parse_url(f"/run/x/{page if page in PAGES else PAGES[0]}", request.url.query)
        view = view.to(run=name)

        def compute(stop: Stop) -> tuple[str, bytes]:
            content = shared_page(hub, view, public_url, stop)
            return file_name(name, shown_finding(hub, view)), content

        def respond(made: tuple[str, bytes]) -> Response:
            download_name, content = made
            disposition = f'attachment; filename="{download_name}"'
            headers = {"Content-Disposition": disposition, "Cache-Control": "no-store"}
            return Response(content, media_type="text/html", headers=headers)

        return await answer(request, compute, respond, queue)

    return [Route("/api/run/{run}/share", share)]
