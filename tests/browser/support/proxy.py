"""A reverse proxy with a path prefix, as nginx or a notebook server puts one before a dashboard.

One HTTP request a connection; a WebSocket's bytes pass through after its handshake.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading


class Proxy:
    """Listens on a port of its own and sends everything below `prefix` to a server.

    `strips`: the server sees the path without the prefix. Anything else gets a 404.
    """

    def __init__(self, prefix: str, to_port: int, strips: bool) -> None:
        self.prefix = prefix
        self.strips = strips
        self.to_port = to_port
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))

    @property
    def url(self) -> str:
        """Where browsers reach it, prefix included."""
        return f"http://127.0.0.1:{self.port}{self.prefix}"

    async def _serve(self) -> None:
        async with await asyncio.start_server(self._connected, "127.0.0.1", 0) as listener:
            self.port = listener.sockets[0].getsockname()[1]
            self._ready.set()
            await self._ended.wait()
        pending = asyncio.all_tasks() - {asyncio.current_task()}
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        await asyncio.sleep(0.05)  # closed transports need a turn of the loop

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            method, path, rest = head.split(b" ", 2)
            prefix = self.prefix.encode()
            if not path.startswith(prefix + b"/"):
                writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            else:
                path = path.removeprefix(prefix) if self.strips else path
                await self._pass_on(b" ".join([method, path, rest]), reader, writer)

    async def _pass_on(
        self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        back, forth = await asyncio.open_connection("127.0.0.1", self.to_port)
        if b"\r\nupgrade: websocket" not in head.lower():
            head = head.replace(b"Connection: keep-alive", b"Connection: close")
        with contextlib.closing(forth):
            forth.write(head)
            ways = [
                asyncio.ensure_future(copied(reader, forth)),
                asyncio.ensure_future(copied(back, writer)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()

    def __enter__(self) -> Proxy:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()
        self._loop.close()


async def copied(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Pass bytes on until the source ends."""
    with contextlib.suppress(OSError):
        while piece := await source.read(1 << 16):
            target.write(piece)
            await target.drain()
