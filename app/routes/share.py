"""A view as one HTML file to store or send."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.routes.context import RouteContext
from app.share.shared_file import SharedFile, shared_file
from app.view_state import PAGE_NAMES, parse_url
from app.web.answers import answer
from ingest.stopping import Stop


def routes(context: RouteContext) -> list[Route]:
    """GET api/run/RUN/share?page=...&<fields of the view>: the file as a download."""
    hub, queue, public_url = context.hub, context.shares, context.public_root

    async def share(request: Request) -> Response:
        name = request.path_params["run"]
        page = request.query_params.get("page", PAGE_NAMES[0])
        view, _ = parse_url(
            f"/run/x/{page if page in PAGE_NAMES else PAGE_NAMES[0]}", request.url.query
        )
        view = view.to(run=name)

        def compute(stop: Stop) -> SharedFile:
            return shared_file(hub, view, public_url, stop)

        def respond(file: SharedFile) -> Response:
            disposition = f'attachment; filename="{file.name}"'
            headers = {"Content-Disposition": disposition, "Cache-Control": "no-store"}
            return Response(file.content, media_type="text/html", headers=headers)

        return await answer(request, compute, respond, queue)

    return [Route("/api/run/{run}/share", share)]
