"""The socket of the ranks, `{base}/agent`: one for each rank, or one for all ranks of a host.

It requires the job token (app.access.auth). What is sent on it: rank_socket.py; how the ranks of a
host share one: hosts.py. The server closes it with a close code and one sentence (closing.py).
"""

from __future__ import annotations

from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from app.access.auth import AGENT_PATH
from app.routes.context import RouteContext
from app.routes.live.closing import UNKNOWN_TOKEN, RankLine, Refused, close
from app.routes.live.hosts import HostSocket
from app.routes.live.rank_socket import Disk, RankSocket
from app.web.caller import JOB
from app.web.metrics import METRICS
from trace_hooks.protocol.multiplexing import SUBPROTOCOL


def routes(context: RouteContext) -> list[WebSocketRoute]:
    """The socket of all runs' ranks; the files that they send are stored below `runs`."""
    jobs, runs = context.jobs, context.hub.store.folder
    disk = Disk(runs, jobs.ranks.is_connected)

    async def rank(line: RankLine) -> None:
        try:
            await RankSocket(jobs, line, disk).serve()
        except Refused as error:
            await close(line, error)
        except (TimeoutError, WebSocketDisconnect):
            pass

    async def agent(websocket: WebSocket) -> None:
        is_host = SUBPROTOCOL in websocket.scope.get("subprotocols", ())
        await websocket.accept(SUBPROTOCOL if is_host else None)
        try:
            if not websocket.scope.get(JOB):
                raise Refused(
                    UNKNOWN_TOKEN,
                    "this job token is not valid here; set TRACE_HOOKS_TOKEN to the "
                    "one the server was started with",
                )
            with METRICS.open_rank_socket():
                await (HostSocket(websocket, rank).serve() if is_host else rank(websocket))
        except Refused as error:
            await close(websocket, error)
        except (TimeoutError, WebSocketDisconnect):
            pass

    return [WebSocketRoute(AGENT_PATH, agent)]
