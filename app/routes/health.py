"""Health of the server itself: /healthz for monitors, /metrics for Prometheus."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from app.routes.context import RouteContext
from app.web.caller import ROLE
from app.web.metrics import METRICS, gauge, resident_bytes


def routes(context: RouteContext) -> list[Route]:
    """GET /healthz (answers without a token) and /metrics."""
    hub, queues = context.hub, context.queues

    async def healthz(request: Request) -> Response:
        problems = hub.problems()
        full = [queue.kind for queue in queues if queue.is_full]
        health: dict[str, object] = {
            "status": "degraded" if problems or full else "ok",
            "uptime_s": round(METRICS.uptime_s, 1),
            "num_runs_open": hub.num_open,
            "num_problems": len(problems),
            "waited_for": full,
        }
        if request.scope.get(ROLE) is not None:  # they name runs and paths
            health["problems"] = problems
        return JSONResponse(health, headers={"Cache-Control": "no-store"})

    async def metrics(_request: Request) -> Response:
        lines = METRICS.lines()
        for name, meaning, value, kind in (
            ("index_passes_total", "Passes of the indexer", hub.passes.number, "counter"),
            ("index_seconds_total", "Time they took", hub.passes.seconds, "counter"),
            ("index_failures_total", "Passes that failed", hub.passes.failed, "counter"),
            ("runs_open", "Runs open and followed", hub.num_open, "gauge"),
            ("runs_behind", "Runs that cannot be indexed now", len(hub.problems()), "gauge"),
            ("kept_answer_bytes", "Answers kept in memory", hub.cache.num_bytes, "gauge"),
            ("resident_bytes", "Memory of the process", resident_bytes(), "gauge"),
            ("uptime_seconds", "Since the server began", METRICS.uptime_s, "gauge"),
        ):
            lines += gauge(name, meaning, value, kind)
        return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")

    return [Route("/healthz", healthz), Route("/metrics", metrics)]
