"""Files of a browser as runs: received piece by piece, gone on with after any break, imported.

The files lie in RUNS/.uploads until they are imported. A server that stops, or is killed, leaves
them there; the next one goes on with them: the browser sends the rest, or the import begins again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary, finalize

from app.runs.hub import Hub
from app.uploads.errors import Busy, Stopping, TooBig, TooMany, Unknown, WrongOffset, no_room
from app.uploads.files import FileHead, check_room, title
from app.uploads.importing import Import, Room, import_files, is_for_want_of_room
from app.uploads.storage import Place, keep_s, left_ids, new_place, remove_litter, taken_over
from ingest.errors import UserError, printable
from ingest.run_folder.run_files import is_run_folder

MOST_UNDER_WAY = 64
MOST_OF_ONE_TOKEN = 32
"""Uploads under way: those of one token leave room for the others'."""
QUIET_S = 5.0
"""A connection that sent nothing for so long gives way to another one of the same upload."""
_KEPT_RESULTS = 64
_SWEEP_S = 600.0
_CLOSE_S = 5.0
_NO_ROOM = (
    "The disk of the server is full; all files are kept, and their import goes on by itself once "
    "there is room."
)


class Upload:
    """One upload: `state` is receiving, queued, importing, waiting (for room on a full disk), done
    or failed. Thread-safe.

    One connection writes at a time: the one that claimed the upload last.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.state = "queued" if place.files.is_whole else "receiving"
        self.result = Import(num_bytes=place.files.num_bytes)
        self.cancelled = False
        self._lock = threading.Lock()
        self._writer: object | None = None
        self._seen_s = 0.0

    @property
    def offset(self) -> int:
        """Bytes that have come."""
        return self.place.files.offset

    def told(self) -> dict[str, Any]:
        """What the page is told of it."""
        files = self.place.files
        return {
            "title": title(files.heads),
            "state": self.state,
            "offset": files.offset,
            "total_bytes": files.num_bytes,
            "num_files": len(files.heads),
            "is_sending": self._is_sending(),
            "keep_hours": keep_s() / 3600,
            **vars(self.result),
        }

    def _is_sending(self) -> bool:
        return self._writer is not None and time.monotonic() - self._seen_s < QUIET_S

    def claim(self, offset: int, num_bytes: int | None) -> object:
        """The right to append from `offset` on; raises Busy, WrongOffset, TooBig, NoRoom."""
        with self._lock:
            if self.state != "receiving":
                raise WrongOffset("all bytes of these files are here already")
            if self._is_sending():
                raise Busy("another connection is sending these files; wait until it has ended")
            if offset != self.offset:
                raise WrongOffset(
                    f"{self.offset} bytes are here, these begin at {offset}; go on there"
                )
            if num_bytes is not None and offset + num_bytes > self.place.files.num_bytes:
                raise TooBig("the upload is longer than its list of files says; send it anew")
            check_room(self.place.folder, num_bytes or 0)
            self._writer, self._seen_s = object(), time.monotonic()
            return self._writer

    def append(self, writer: object, content: bytes | bytearray) -> None:
        """The next bytes of the connection that claimed it; raises Busy, TooBig, NoRoom."""
        with self._lock:
            if self._writer is not writer:
                raise Busy("another connection goes on with these files, or they were given up")
            self.place.files.append(content)
            self._seen_s = time.monotonic()

    def release(self, writer: object) -> None:
        """The connection has ended."""
        with self._lock:
            if self._writer is writer:
                self._writer = None

    def remove(self) -> None:
        """Whoever is sending it is refused from now on, and nothing stays on disk."""
        with self._lock:
            self._writer = None
            self.place.remove()

    def leave(self) -> None:
        """Whoever is sending it is refused from now on; the next server goes on with it."""
        with self._lock:
            self._writer = None
            self.place.release()


class Uploads:
    """Uploads of one server, each known by a random id; imported one at a time."""

    def __init__(self, runs: Path) -> None:
        self.runs = runs
        self._uploads: dict[str, Upload] = {}
        self._lock = threading.Lock()
        self._one_at_a_time = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._closed = threading.Event()
        self.sweep()
        threading.Thread(target=self._sweep_on, name="upload sweeper", daemon=True).start()

    def create(self, heads: Sequence[FileHead], token: str = "") -> Upload:
        """A new upload of these files by a holder of this token ('': of any); raises UserError."""
        if is_run_folder(self.runs):
            raise UserError("this server shows one run; serve a folder of runs to add others")
        with self._lock:
            if self._closed.is_set():
                raise Stopping("the server is stopping; send it again later")
            unfinished = [one for one in self._uploads.values() if one.state == "receiving"]
            if len(unfinished) >= MOST_UNDER_WAY:
                raise TooMany(f"{MOST_UNDER_WAY} uploads are under way; wait for one of them")
            if token and [one.place.token for one in unfinished].count(token) >= MOST_OF_ONE_TOKEN:
                raise TooMany(
                    f"{MOST_OF_ONE_TOKEN} uploads with your token are under way; wait for one"
                )
            missing = sum(one.place.files.num_bytes - one.offset for one in unfinished)
            check_room(self.runs, missing + sum(head.num_bytes for head in heads))
            upload = Upload(new_place(self.runs, heads, token))
            self._uploads[upload.place.id] = upload
        return upload

    def get(self, upload_id: str) -> Upload:
        """The upload of that id, taken over from an ended server if need be; raises Unknown."""
        with self._lock:
            upload = self._uploads.get(upload_id) or self._take_over(upload_id)
        if upload is None:
            raise Unknown(
                "that upload is not known any more; see the list of runs, or send it anew"
            )
        return upload

    def _take_over(self, upload_id: str) -> Upload | None:
        place = None if self._closed.is_set() else taken_over(self.runs, upload_id)
        if place is None:
            return None
        upload = self._uploads[upload_id] = Upload(place)
        if upload.state == "queued":
            self._start(upload)
        return upload

    def import_if_whole(self, upload: Upload) -> None:
        """Import in a thread once all bytes have come."""
        with self._lock:
            is_whole = upload.state == "receiving" and upload.place.files.is_whole
            if not is_whole or self._closed.is_set():
                return
            upload.state = "queued"
            self._start(upload)

    def _start(self, upload: Upload) -> None:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(target=self._work, args=(upload,), name="import", daemon=True)
        self._threads.append(thread)
        thread.start()

    def end(self, upload_id: str) -> None:
        """Give an upload up, whatever its state; raises Unknown."""
        upload = self.get(upload_id)
        upload.cancelled = True
        with self._lock:
            if upload.state in ("receiving", "done", "failed"):
                self._uploads.pop(upload_id, None)
                upload.remove()

    def sweep(self) -> None:
        """Take over what ended servers left, and remove what nobody comes back to."""
        remove_litter(self.runs, keep_s())
        for upload_id in left_ids(self.runs):
            with self._lock:
                upload = self._uploads.get(upload_id) or self._take_over(upload_id)
                if upload is None or upload.state != "receiving":
                    continue
                try:
                    is_stale = upload.place.age_s() > keep_s()
                except OSError:  # its folder was removed by hand
                    is_stale = True
                if is_stale:
                    del self._uploads[upload_id]
                    upload.remove()

    def _sweep_on(self) -> None:
        while not self._closed.wait(min(_SWEEP_S, keep_s() / 4)):
            self.sweep()

    def cancel(self) -> None:
        """Take nothing new, and interrupt what is under way."""
        with self._lock:
            self._closed.set()

    def close(self, limit_s: float = _CLOSE_S) -> None:
        """Interrupt imports, wait so long for them; all that came stays for the next server."""
        self.cancel()
        until_s = time.monotonic() + limit_s
        for thread in self._threads:
            if thread is not threading.current_thread():  # the last to let go of a server's uploads
                thread.join(max(0.0, until_s - time.monotonic()))
        with self._lock:
            uploads = list(self._uploads.values())
        for upload in uploads:
            upload.leave()

    def _work(self, upload: Upload) -> None:
        with self._one_at_a_time:
            tries = upload.place.tries
            room = Room(upload.place, self.runs, tries)
            try:
                while not self._closed.is_set() and upload.result.run is None:
                    self._import(upload, room)
            except UserError as error:
                upload.result.error = _named(upload, error)
            except OSError as error:
                upload.result.error = str(no_room(error))
            except Exception as error:
                upload.result.error = (
                    f"these files cannot be read ({type(error).__name__}); tell us of it"
                )
                raise  # a bug: the server's log has the traceback, the page a sentence
            finally:
                self._ended(upload, tries)

    def _import(self, upload: Upload, room: Room) -> None:
        """Import, or wait until a full disk may have room for it; raises UserError, OSError."""

        def is_over() -> bool:
            return upload.cancelled or self._closed.is_set()

        upload.state = "importing"
        try:
            import_files(upload.place, self.runs, upload.result, is_over)
            return
        except (UserError, OSError) as error:
            if not is_for_want_of_room(error):
                raise
        upload.result = Import(num_bytes=upload.place.files.num_bytes, error=_NO_ROOM)
        upload.state = "waiting"
        room.wait(is_over)
        upload.result.error = None

    def _ended(self, upload: Upload, tries: int) -> None:
        """Note how it ended; where the server stops the next one begins the import again."""
        if self._closed.is_set() and upload.result.run is None and not upload.cancelled:
            if upload.place.folder.is_dir():
                upload.place.tries = tries
            upload.leave()
            return
        upload.remove()
        upload.state = "done" if upload.result.run is not None else "failed"
        with self._lock:
            ended = [i for i, one in self._uploads.items() if one.state in ("done", "failed")]
            for upload_id in ended[:-_KEPT_RESULTS]:
                del self._uploads[upload_id]


def _named(upload: Upload, error: UserError) -> str:
    """The sentence, with the files as the user knows them."""
    return str(error).replace(printable(f"{upload.place.files.folder}/"), "")


_uploads: WeakKeyDictionary[Hub, Uploads] = WeakKeyDictionary()
_uploads_lock = threading.Lock()


def uploads_of(hub: Hub) -> Uploads:
    """The uploads of a hub's server; closed with the hub where nobody does it before."""
    with _uploads_lock:
        uploads = _uploads.get(hub)
        if uploads is None:
            uploads = _uploads[hub] = Uploads(hub.store.folder)
            finalize(hub, uploads.close)
        return uploads
