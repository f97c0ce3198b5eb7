"""Data of the page Selftest.

selftest          tests, devices and groups of a self-test, as JSON
selftest/matrix   bandwidths of pairs, as arrays: `test` (mesh, pair, or traffic for what ordinary
                  steps achieved), `bytes`, `by` (rank or host)

Both take `attempt`.
"""

from __future__ import annotations

from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.routes.context import RouteContext
from app.routes.ranks import Parameters
from app.share.collected_pages import packed_matrix
from app.views.selftest import Matrix, Selftest, matrix_of, selftest_of
from app.web.answers import answer
from app.web.arrays import MEDIA_TYPE
from ingest.stopping import Stop


def routes(context: RouteContext) -> list[Route]:
    """The two routes of the page."""
    hub = context.hub

    def measured(params: Parameters, stop: Stop) -> Selftest:
        attempt = params.whole("attempt")
        return hub.cache.get(
            params.run,
            ("self-test", attempt),
            lambda run, stop: selftest_of(run, attempt, stop),
            stop=stop,
        )

    def matrix(params: Parameters, stop: Stop) -> Matrix:
        wanted = (
            params.whole("attempt"),
            params.text("test"),
            params.whole("bytes") or 0,
            params.text("by", "rank"),
        )
        return hub.cache.get(
            params.run,
            ("self-test matrix", *wanted),
            lambda run, stop: matrix_of(run, *wanted, stop),
            stop=stop,
        )

    async def numbers(request: Request) -> Response:
        return await answer(
            request,
            lambda stop: measured(Parameters(request), stop),
            lambda found: JSONResponse(asdict(found)),
        )

    async def arrays(request: Request) -> Response:
        return await answer(request, lambda stop: matrix(Parameters(request), stop), _packed)

    return [
        Route("/api/run/{run}/selftest", numbers),
        Route("/api/run/{run}/selftest/matrix", arrays),
    ]


def _packed(found: Matrix) -> Response:
    return Response(packed_matrix(found), media_type=MEDIA_TYPE)
