"""A rank's connection to the server: it receives frames, heartbeats and files, and sends commands.

The first message is a hello with the run's secret, which determines the rank and the attempt that
the connection may write (app.live.claims). Text is JSON: hello, heartbeat, ack, bye from the rank;
welcome, watch, command to it. Binary is one frame (trace_hooks.protocol.frames) or one file
(trace_hooks.protocol.file_transfer). If a connection sends malformed messages, too many or none,
the server closes it; the rank reconnects on its own, and training does not notice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.websockets import WebSocketDisconnect

from app.live.claims import Claims, NotYours, TooMany
from app.live.connected_rank import ENDED, ConnectedRank, Hello, OtherVersion
from app.live.connected_ranks import Crowded
from app.live.frame_cache import key_of
from app.live.jobs import LiveJobs
from app.live.segment_check_processes import SegmentChecks
from app.live.shipped_files import ShippedFiles
from app.routes.live.closing import (
    CROWDED,
    FAILED,
    FLOOD,
    MALFORMED,
    NOT_YOURS,
    OTHER_VERSION,
    REPLACED,
    SEND_S,
    SILENT,
    SILENT_S,
    RankLine,
    Refused,
)
from app.web.plain_json import loads
from ingest.errors import UserError
from trace_hooks.protocol import file_transfer
from trace_hooks.protocol.frames import MAX_FRAME_BYTES, decode
from trace_hooks.protocol.token_bucket import Rate

HELLO_S = 10.0
"""Time limit for a rank's hello."""
MESSAGES_PER_S, BYTES_PER_S = 1_000.0, float(64 << 20)
"""The limits that the welcome sends to a rank; twice as much is a flood."""
TEXTS_PER_S, MOST_TEXTS = 20.0, 400.0
LONGEST_TEXT = 1 << 16
_DISK_THREADS = 4

T = TypeVar("T")


class Disk:
    """Disk access for the ranks' sockets, in threads that nothing else uses."""

    def __init__(self, runs: Path, is_connected: Callable[[str], bool]) -> None:
        self.claims = Claims(runs, is_connected)
        self.checks = SegmentChecks()
        self._limiters: dict[str, CapacityLimiter] = {}

    async def run(self, what: str, function: Callable[..., T], *arguments: Any) -> T:
        """The result of a function; each `what` has its own threads."""
        limiter = self._limiters.setdefault(what, CapacityLimiter(_DISK_THREADS))
        return await run_sync(function, *arguments, limiter=limiter)


def _may_send(hello: Hello, parcel: file_transfer.Parcel) -> bool:
    """Whether a file is the rank's own, of this attempt or left over from an earlier one."""
    if parcel.rank is None or parcel.attempt is None:
        return hello.rank == 0  # the file of the run
    return parcel.rank == hello.rank and parcel.attempt <= hello.attempt


class RankSocket:
    """One rank's socket, or its channel on the socket of its host."""

    def __init__(self, jobs: LiveJobs, line: RankLine, disk: Disk) -> None:
        self._jobs = jobs
        self._disk = disk
        self._line = line
        self._messages = Rate(2 * MESSAGES_PER_S, 4 * MESSAGES_PER_S)
        self._bytes = Rate(2 * BYTES_PER_S, max(4 * BYTES_PER_S, 2.0 * MAX_FRAME_BYTES))
        self._texts = Rate(TEXTS_PER_S, MOST_TEXTS)

    async def serve(self) -> None:
        """Receive messages and send commands until either side closes the connection."""
        rank = await self._entered(await self._hello())
        tasks: list[asyncio.Task[None]] = []
        try:
            await self._welcome()
            tasks = [
                asyncio.create_task(self._receive(rank)),
                asyncio.create_task(self._send_commands(rank)),
                asyncio.create_task(self._until_replaced(rank)),
            ]
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            self._jobs.ranks.leave(rank)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _hello(self) -> dict[str, Any]:
        hello = self._object(await self._message(HELLO_S))
        if hello.get("type") != "hello":
            raise Refused(MALFORMED, "the first message of a rank must be its hello")
        return hello

    async def _welcome(self) -> None:
        welcome = {
            "type": "welcome",
            "messages_per_s": MESSAGES_PER_S,
            "bytes_per_s": BYTES_PER_S,
            "message_bytes": MAX_FRAME_BYTES,
        }
        await asyncio.wait_for(self._line.send_json(welcome), SEND_S)

    async def _entered(self, message: dict[str, Any]) -> ConnectedRank:
        """The rank that a hello claims to be; raises Refused if the claim is not valid."""
        try:
            hello = Hello.from_json(message)
            await self._disk.run("claims", self._disk.claims.check, hello)
            return self._jobs.ranks.enter(replace(hello, secret=""))
        except OtherVersion as error:
            raise Refused(OTHER_VERSION, str(error)) from error
        except NotYours as error:
            raise Refused(NOT_YOURS, str(error)) from error
        except (Crowded, TooMany) as error:
            raise Refused(CROWDED, str(error)) from error
        except ValueError as error:
            raise Refused(MALFORMED, str(error)) from error
        except UserError as error:
            raise Refused(FAILED, str(error)) from error

    async def _message(self, limit_s: float) -> str | bytes:
        """The next message; raises Refused for a flood or silence, WebSocketDisconnect."""
        try:
            message = await asyncio.wait_for(self._line.receive(), limit_s)
        except TimeoutError:
            raise Refused(SILENT, f"no message for {limit_s:.0f} s") from None
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1006))
        text, content = message.get("text"), message.get("bytes")
        size = len(text if text is not None else content or b"")
        allowed = self._messages.take() and self._bytes.take(size)
        if not allowed or (text is not None and not self._texts.take()):
            raise Refused(FLOOD, "messages arrive faster than the server accepts them")
        if text is not None and size > LONGEST_TEXT:
            raise Refused(MALFORMED, f"a rank's text may have at most {LONGEST_TEXT} characters")
        received: str | bytes = text if text is not None else content or b""
        return received

    def _object(self, message: str | bytes) -> dict[str, Any]:
        try:
            value = loads(message) if isinstance(message, str) else None
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise Refused(MALFORMED, "this text from a rank is not a JSON object")
        return value

    async def _receive(self, rank: ConnectedRank) -> None:
        while True:
            message = await self._message(SILENT_S)
            rank.seen()
            try:
                if isinstance(message, bytes) and message.startswith(file_transfer.MAGIC):
                    await self._receive_file(rank, file_transfer.decode(message))
                elif isinstance(message, bytes):
                    self._receive_frame(rank, message)
                elif not self._receive_text(rank, value := self._object(message)):
                    await self._end(rank, value.get("complete") is True)
                    return
            except ValueError as error:
                raise Refused(MALFORMED, str(error)) from error

    def _receive_frame(self, rank: ConnectedRank, content: bytes) -> None:
        hello = rank.hello
        frame = replace(decode(content), attempt=hello.attempt, rank=hello.rank)
        rank.received += 1
        self._jobs.frames.put(key_of(hello.run, hello.rank, frame), frame.encode())

    async def _receive_file(self, rank: ConnectedRank, parcel: file_transfer.Parcel) -> None:
        """Store a file of a rank that shares no disk with this server, and confirm it."""
        hello = rank.hello
        if not _may_send(hello, parcel):
            raise Refused(NOT_YOURS, f"{parcel.name} is not a file of rank {hello.rank}")
        answer = {"type": "stored", "name": parcel.name}
        try:
            problem = await self._disk.run("files", self._files(hello).store, parcel)
            if problem:
                answer["text"] = problem
        except UserError as error:
            answer = {"type": "not_stored", "name": parcel.name, "text": str(error)}
        await asyncio.wait_for(self._line.send_json(answer), SEND_S)

    def _files(self, hello: Hello) -> ShippedFiles:
        """Files of a rank. Raises UserError if this server cannot store them."""
        known = self._jobs.ranks.runs[hello.run].files
        if hello.rank not in known:
            folder = self._disk.claims.folder(hello.run)
            known[hello.rank] = ShippedFiles(folder, hello.rank, self._disk.checks.problem_of)
        return known[hello.rank]

    async def _end(self, rank: ConnectedRank, is_complete: bool) -> None:
        """End a rank's attempt; its files are complete, or a later start sends the rest."""
        rank.state = ENDED
        files = self._jobs.ranks.runs[rank.hello.run].files.get(rank.hello.rank)
        if files is not None and is_complete:
            with suppress(UserError):  # the disk is full, and the attempt stays open
                await self._disk.run("files", files.end, rank.hello.attempt)

    def _receive_text(self, rank: ConnectedRank, message: dict[str, Any]) -> bool:
        """Process one text; False if it ends the connection."""
        kind = message.get("type")
        if kind == "heartbeat":
            rank.beat(message)
        elif kind == "ack":
            rank.acknowledge(message)
        elif kind == "hello":
            self._jobs.ranks.again(rank, Hello.from_json(message))
        elif kind == "bye":
            return False
        else:
            raise Refused(MALFORMED, "a rank sends hello, heartbeat, ack, bye and frames")
        return True

    async def _send_commands(self, rank: ConnectedRank) -> None:
        while True:
            command = await rank.commands.get()
            await asyncio.wait_for(self._line.send_json(command), SEND_S)

    async def _until_replaced(self, rank: ConnectedRank) -> None:
        await rank.replaced.wait()
        raise Refused(REPLACED, f"rank {rank.hello.rank} has connected again")
