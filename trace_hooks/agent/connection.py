"""A rank's connection to the dashboard: sends live frames and heartbeats, carries out commands.

A thread of its own keeps one WebSocket open, as a rule to the relay of its host, which has the one
to the server (opening.py), and reconnects when the server was away. Training never
waits for it: frames go into a bounded buffer in which newer ones replace older ones, and the end of
training waits for STOP_S at most. A command of the server is data
(trace_hooks/recording/commands.py).
"""

from __future__ import annotations

import json
import logging
import math
import os
import random
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection

from trace_hooks.agent.frame_buffer import Frame, Outbox
from trace_hooks.agent.log_messages import FewWarnings
from trace_hooks.agent.opening import Opening
from trace_hooks.agent.server_messages import Inbox, Malformed, limits_of, refusal
from trace_hooks.agent.upload_spool import Spool
from trace_hooks.job.identity import Identity
from trace_hooks.protocol.job_claims import VERSION
from trace_hooks.protocol.server_address import Address
from trace_hooks.protocol.token_bucket import Rate
from trace_hooks.recording import guard
from trace_hooks.recording.account import AGENT, Stretch
from trace_hooks.recording.commands import Live
from trace_hooks.recording.rank_state import RankState

log = logging.getLogger("trace_hooks")

BEAT_S = 1.0
LOOK_S = 0.1
"""Commands are read at this interval while no frame is waiting."""
SOON_S = 0.005
"""Messages of the server are read at this interval while frames or a file are being sent."""
STOP_S = 2.0
CLOSED_S = 1.0
"""The server closes the connection after a bye, and so confirms it; it is awaited this long."""
LAST_FILES_S = 10.0
"""The end of training waits this long for files, where the rank sends them."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 15.0
STEADY_S = 10.0
"""A connection that lasted this long was a good one: the next pause is the first again."""
_MOST_AT_ONCE = 16
"""Commands carried out between two frames."""
_GLANCE_S = 0.001
"""Not 0, with which websockets before 15 never returns a message."""


class Agent:
    """The thread and its connection; no method raises, and only `stop` waits, for STOP_S."""

    def __init__(
        self,
        address: Address,
        rank_state: RankState,
        live: Live,
        ships: bool = False,
        meeting: Path | None = None,
    ) -> None:
        """`ships`: send the rank's files as well (upload_spool). `meeting`: folder in which the
        host's relay listens, if it has one.
        """
        self.sent = 0
        self._live = live
        self._rank_state = rank_state
        self._outbox = Outbox()
        self._identity: Identity | None = None
        self._ships = ships
        self._spool: Spool | None = None  # once the rank knows its place
        self._last_s = math.inf  # files not sent by then stay in the folder
        self._placed = threading.Event()
        self._stopping = threading.Event()
        self._opening = Opening(address, meeting, self._stopping)
        self._is_written: Callable[[], bool] = lambda: True
        self._has_left = False  # it has sent its bye
        self._connection: ClientConnection | None = None
        self._status = "finished"
        self._last_hello = ""  # as JSON; sent again when it changes
        self._beat_due_s = self._hear_due_s = 0.0
        self._largest = 0  # bytes of the largest message that the server accepts
        self._rates: tuple[Rate, Rate] | None = None  # messages, bytes
        self._away_warnings = FewWarnings(
            f"the dashboard at {address.server} cannot be reached; training goes on, and the rank "
            "tries again"
        )
        self._server_warnings = FewWarnings(f"the dashboard at {address.server} says")
        self._inbox = Inbox()
        self._time = Stretch(guard.account, AGENT)
        self._thread = threading.Thread(target=self._run, name=AGENT, daemon=True)

    def start(self) -> None:
        """Start the thread; it connects once the rank knows its place."""
        self._thread.start()

    def place(self, identity: Identity) -> None:
        """The rank's place in the run is known."""
        self._identity = identity
        if self._ships:
            self._spool = Spool(identity.folder, identity.place.rank)
        self._placed.set()

    def offer(self, frame: Frame) -> None:
        """Send a frame, unless a newer one of the same key replaces it first."""
        self._outbox.put(frame)

    def stop(self, status: str = "finished", is_written: Callable[[], bool] = lambda: True) -> None:
        """Send what waits, then a bye, and end within about STOP_S.

        `is_written`: whether the rank has written its last file. If it has not, the bye says that
        more comes with the next start, and the server keeps the attempt open.
        """
        self._status, self._is_written = status, is_written
        self._last_s = time.monotonic() + LAST_FILES_S
        self._stopping.set()
        self._placed.set()
        self._outbox.wake()
        if self._thread.ident is None or self._thread is threading.current_thread():
            return
        self._thread.join(STOP_S + (LAST_FILES_S if self._ships else 0.0))
        connection = self._connection
        if self._thread.is_alive() and connection is not None:  # it is blocked on the server
            with suppress(OSError):
                connection.socket.shutdown(socket.SHUT_RDWR)

    def abandon(self) -> None:
        """Close the connection without a bye: this is a forked child, the parent has it.

        The child's copy would keep the socket open after the parent's death.
        """
        if self._connection is not None:
            with suppress(OSError):
                self._connection.socket.close()
            self._connection = None

    @property
    def thinned(self) -> int:
        """Frames left out because a newer one replaced them, or the buffer was full."""
        return self._outbox.thinned

    def _run(self) -> None:
        self._placed.wait()
        pause_s = FIRST_PAUSE_S
        while not self._has_left and (not self._stopping.is_set() or self._owes_files()):
            begun_s = time.monotonic()
            guard.attempt("agent.connection", self._connected, switch_off=False)
            steady = time.monotonic() - begun_s > STEADY_S
            pause_s = FIRST_PAUSE_S if steady else min(2 * pause_s, LONGEST_PAUSE_S)
            if self._stopping.wait(random.uniform(0.5, 1.0) * pause_s):
                time.sleep(LOOK_S)  # one more try follows only where files wait
        if self._spool is not None and not self._spool.is_empty():
            log.warning("trace_hooks: not all files could be sent; they wait in the run's folder")

    def _owes_files(self) -> bool:
        """Whether files wait, and the end of training still has time to send them."""
        spool = self._spool
        return spool is not None and time.monotonic() < self._last_s and not spool.is_empty()

    def _connected(self) -> None:
        """Connect, and exchange messages until the connection ends for whatever reason."""
        try:
            with self._opening.open() as connection:
                self._connection = connection
                self._talk(connection)
        except InvalidStatus as error:
            self._not_reached(refusal(error))
        except ConnectionClosed as error:
            if error.rcvd is not None:
                self._not_reached(error.rcvd.reason)
        except Malformed as error:
            self._not_reached(error)
        except (
            OSError,
            EOFError,  # websockets before 15
            ValueError,  # redirected
            WebSocketException,
        ) as error:
            self._not_reached(str(error) or type(error).__name__)
        finally:
            self._connection = None
            self._last_hello = ""

    def _not_reached(self, why: object) -> None:
        """Log why the server is not reached, unless training is ending."""
        if not self._stopping.is_set():
            self._away_warnings.warn(why)

    def _talk(self, connection: ClientConnection) -> None:
        self._rates, self._inbox = None, Inbox()
        self._beat_due_s = self._hear_due_s = 0.0
        self._say_hello(connection)
        while not self._stopping.is_set():
            self._hear(connection)
            self._beat(connection)
            sent = self._send_file(connection)
            self._send_frame(connection, SOON_S if sent else LOOK_S)
        until_s = time.monotonic() + STOP_S / 2
        while time.monotonic() < until_s and self._send_frame(connection, 0.0):
            pass
        self._send_last_files(connection)
        self._beat_due_s = 0.0
        self._beat(connection)
        is_written = self._is_written()  # checked before the files that wait
        complete = is_written and (self._spool is None or self._spool.is_empty())
        self._send(connection, {"type": "bye", "status": self._status, "complete": complete})
        self._has_left = True
        self._await_close(connection)

    def _await_close(self, connection: ClientConnection) -> None:
        """Return once the server has closed the connection, after CLOSED_S at most.

        Until then the bye may wait in the relay, which ends with its container.
        """
        until_s = time.monotonic() + CLOSED_S
        with suppress(TimeoutError, ConnectionClosed):
            while (left_s := until_s - time.monotonic()) > 0:
                connection.recv(timeout=left_s)

    def _say_hello(self, connection: ClientConnection) -> None:
        """Send who this rank is and what it offers, unless the server has just that already."""
        assert self._identity is not None
        shared, place = self._identity.shared, self._identity.place
        layout = self._rank_state.layout
        text = json.dumps(
            {
                "type": "hello",
                "version": VERSION,
                "run": shared.run,
                "attempt": shared.attempt,
                "secret": shared.secret,
                "start": shared.start,
                "rank": place.rank,
                "world_size": place.world_size,
                "host": socket.gethostname(),
                "pid": os.getpid(),
                "layout": layout.to_json() if layout else None,
                **{name: current() for name, current in self._live.about.items()},
            }
        )
        if text != self._last_hello:
            connection.send(text)
            self._last_hello = text

    def _hear(self, connection: ClientConnection) -> None:
        if time.monotonic() < self._hear_due_s:
            return
        for _ in range(_MOST_AT_ONCE):
            try:
                data = connection.recv(timeout=_GLANCE_S)
            except TimeoutError:
                self._hear_due_s = time.monotonic() + SOON_S
                return
            message = self._inbox.read(data)
            kind = message.get("type")
            if kind == "welcome":
                self._take_limits(message)
            elif kind == "stored" and self._spool is not None:
                self._spool.stored(str(message.get("name")))
                self._server_warnings.forget()
            if kind in ("stored", "not_stored") and message.get("text"):
                self._server_warnings.warn(message["text"])
            ack = self._live.commands.answer(message)
            if ack is not None:
                self._send(connection, ack)

    def _take_limits(self, welcome: dict[str, Any]) -> None:
        """Keep to the limits in the server's welcome; no frame is sent before it."""
        limits = limits_of(welcome)
        self._rates = (
            Rate(limits.messages_per_s, limits.messages_per_s),
            Rate(limits.bytes_per_s, limits.bytes_per_s),
        )
        self._largest = limits.message_bytes
        self._away_warnings.forget()
        if self._spool is not None:
            self._spool.begin(self._largest)

    def _beat(self, connection: ClientConnection) -> None:
        now_s = time.monotonic()
        if now_s < self._beat_due_s:
            return
        self._beat_due_s = now_s + BEAT_S
        self._time.charge("agent")
        self._say_hello(connection)
        self._send(
            connection,
            {
                "type": "heartbeat",
                "step": self._rank_state.step,
                "phase": self._rank_state.phase,
                "sent": self.sent,
                "thinned": self.thinned,
                **{name: current() for name, current in self._live.beats.items()},
            },
        )

    def _send_frame(self, connection: ClientConnection, wait_s: float) -> bool:
        """Send the next frame within the server's limits; False where none waits."""
        if self._rates is None:
            self._stopping.wait(wait_s)
            return False
        messages, num_bytes = self._rates
        pause_s = max(messages.wait_s(), num_bytes.wait_s())
        if pause_s > 0:
            time.sleep(min(LOOK_S, pause_s))
            return True
        frame = self._outbox.take(wait_s)
        if frame is None:
            return False
        content = frame.encode()
        if len(content) > self._largest:
            self._outbox.leave_out()
            return True
        messages.take()
        num_bytes.spend(len(content))
        connection.send(content)
        self.sent += 1
        return True

    def _send_file(self, connection: ClientConnection) -> bool:
        """Send the next file that waits; True while one is not acknowledged."""
        if self._spool is None or self._rates is None:
            return False
        parcel = self._spool.next()
        if parcel is not None:
            content = parcel.encode()
            self._rates[1].spend(len(content))
            connection.send(content)
        return self._spool.is_sending

    def _send_last_files(self, connection: ClientConnection) -> None:
        while self._owes_files():
            self._send_file(connection)
            self._hear(connection)
            time.sleep(SOON_S)

    def _send(self, connection: ClientConnection, message: dict[str, Any]) -> None:
        connection.send(json.dumps(message))
