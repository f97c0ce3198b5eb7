"""What the routes answer from."""

from __future__ import annotations

from dataclasses import fields

from app.routes.context import RouteContext
from app.runs.hub import Hub
from app.web.request_queue import RequestQueue


def test_the_health_of_a_server_knows_each_of_its_queues(hub: Hub) -> None:
    context = RouteContext(hub)
    values = [getattr(context, field.name) for field in fields(context)]
    assert list(context.queues) == [one for one in values if isinstance(one, RequestQueue)]
    assert RouteContext(hub).queues != context.queues, "each server has its own"
