"""Routes of the server that answer with data: one module per subject, listed in ROUTES.

Each has routes(context), which make_app adds in this order.
"""

from __future__ import annotations

from app.routes import (
    data,
    experts,
    findings,
    fleet,
    goodput,
    health,
    layout,
    logs,
    machines,
    mfu,
    model,
    overview,
    query,
    ranks,
    runs,
    selftest,
    share,
    stuck,
    timeline,
    uploads,
    whatif,
)
from app.routes.live import agents, perturb, status, watch

ROUTES = (
    health,
    status,
    agents,
    watch,
    runs,
    fleet,
    uploads,
    share,
    query,
    ranks,
    layout,
    findings,
    overview,
    timeline,
    whatif,
    model,
    stuck,
    machines,
    data,
    experts,
    mfu,
    goodput,
    logs,
    selftest,
    perturb,
)
