"""Uploads from browsers: received in chunks, resumable after any interruption, then imported.

The files stay in RUNS/.uploads until they are imported. A server that stops or is killed leaves
them there, and the next one continues: the browser sends the rest, or the import begins again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app.runs.hub import Hub
from app.runs.per_hub import PerHub
from app.uploads.errors import Busy, Stopping, TooBig, TooMany, Unknown, WrongOffset, no_room
from app.uploads.files import FileHead, check_room, title
from app.uploads.importing import Import, Room, import_files, is_out_of_space
from app.uploads.storage import (
    UploadFolder,
    keep_s,
    left_ids,
    new_folder,
    remove_litter,
    taken_over,
)
from ingest.errors import UserError, printable
from ingest.run_folder.run_files import is_run_folder

MOST_UNFINISHED = 64
MOST_OF_ONE_TOKEN = 32
"""Uploads that are not imported yet, each with a lock file and, once whole, a thread; those of one
token leave room for the others'."""
QUIET_S = 5.0
"""A connection that sent nothing for this long gives way to another one for the same upload."""
_MOST_RESULTS = 64
_SWEEP_S = 600.0
_CLOSE_S = 5.0
_NO_ROOM = (
    "The disk of the server is full; all files are kept, and their import continues automatically "
    "once there is room."
)


class Upload:
    """One upload: `state` is receiving, queued, importing, waiting (for room on a full disk), done
    or failed. Thread-safe.

    One connection writes at a time: the last one that claimed the upload.
    """

    def __init__(self, storage: UploadFolder) -> None:
        self.storage = storage
        self.state = "queued" if storage.files.is_whole else "receiving"
        self.result = Import(num_bytes=storage.files.num_bytes)
        self.cancelled = False
        self._lock = threading.Lock()
        self._writer: object | None = None
        self._seen_s = 0.0

    @property
    def offset(self) -> int:
        """Bytes that have arrived."""
        return self.storage.files.offset

    @property
    def has_ended(self) -> bool:
        """Whether it is imported, or will never be."""
        return self.state in ("done", "failed")

    def as_json(self) -> dict[str, Any]:
        """The upload as the page shows it."""
        files = self.storage.files
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
        """The right to append from `offset`; raises Busy, WrongOffset, TooBig, NoRoom."""
        with self._lock:
            if self.state != "receiving":
                raise WrongOffset("all bytes of these files are here already")
            if self._is_sending():
                raise Busy("another connection is sending these files; wait until it has ended")
            if offset != self.offset:
                raise WrongOffset(
                    f"{self.offset} bytes have arrived, but these begin at {offset}; continue at "
                    f"byte {self.offset}"
                )
            if num_bytes is not None and offset + num_bytes > self.storage.files.num_bytes:
                raise TooBig("the upload is longer than its list of files says; send it again")
            check_room(self.storage.folder, num_bytes or 0)
            self._writer, self._seen_s = object(), time.monotonic()
            return self._writer

    def append(self, writer: object, content: bytes | bytearray) -> None:
        """Append the next bytes of the connection that claimed it; raises Busy, TooBig, NoRoom."""
        with self._lock:
            if self._writer is not writer:
                raise Busy("another connection is sending these files, or the upload was cancelled")
            self.storage.files.append(content)
            self._seen_s = time.monotonic()

    def release(self, writer: object) -> None:
        """Give up the claim of a connection that has ended."""
        with self._lock:
            if self._writer is writer:
                self._writer = None

    def remove(self) -> None:
        """Refuse further bytes and delete the upload from disk."""
        with self._lock:
            self._writer = None
            self.storage.remove()

    def leave(self) -> None:
        """Refuse further bytes and leave the upload to the next server."""
        with self._lock:
            self._writer = None
            self.storage.release()


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
        """A new upload of these files, counted for this token ('' without tokens); raises
        UserError.
        """
        if is_run_folder(self.runs):
            raise UserError("this server shows one run; serve a folder of runs to add others")
        with self._lock:
            if self._closed.is_set():
                raise Stopping("the server is stopping; send it again later")
            unfinished = [other for other in self._uploads.values() if not other.has_ended]
            if len(unfinished) >= MOST_UNFINISHED:
                raise TooMany(
                    f"{MOST_UNFINISHED} uploads are in progress, which is the limit; wait until "
                    "one has finished"
                )
            num_own = sum(other.storage.token == token for other in unfinished)
            if token and num_own >= MOST_OF_ONE_TOKEN:
                raise TooMany(
                    f"{MOST_OF_ONE_TOKEN} uploads with your token are in progress, which is the "
                    "limit; wait until one has finished"
                )
            missing = sum(other.storage.files.num_bytes - other.offset for other in unfinished)
            check_room(self.runs, missing + sum(head.num_bytes for head in heads))
            upload = Upload(new_folder(self.runs, heads, token))
            self._uploads[upload.storage.id] = upload
        return upload

    def get(self, upload_id: str) -> Upload:
        """The upload with this id, if necessary taken over from an ended server; raises Unknown."""
        with self._lock:
            upload = self._uploads.get(upload_id) or self._take_over(upload_id)
        if upload is None:
            raise Unknown("that upload no longer exists; see the list of runs, or send it again")
        return upload

    def _take_over(self, upload_id: str) -> Upload | None:
        storage = None if self._closed.is_set() else taken_over(self.runs, upload_id)
        if storage is None:
            return None
        upload = self._uploads[upload_id] = Upload(storage)
        if upload.state == "queued":
            self._start(upload)
        return upload

    def import_if_whole(self, upload: Upload) -> None:
        """Import in a thread once all bytes have arrived."""
        with self._lock:
            is_whole = upload.state == "receiving" and upload.storage.files.is_whole
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
        """Cancel an upload in any state; raises Unknown."""
        upload = self.get(upload_id)
        upload.cancelled = True
        with self._lock:
            if upload.state == "receiving" or upload.has_ended:
                self._uploads.pop(upload_id, None)
                upload.remove()

    def sweep(self) -> None:
        """Take over the uploads of ended servers, and remove abandoned ones."""
        remove_litter(self.runs, keep_s())
        for upload_id in left_ids(self.runs):
            with self._lock:
                upload = self._uploads.get(upload_id) or self._take_over(upload_id)
                if upload is None or upload.state != "receiving":
                    continue
                try:
                    is_stale = upload.storage.age_s() > keep_s()
                except OSError:  # its folder was removed by hand
                    is_stale = True
                if is_stale:
                    del self._uploads[upload_id]
                    upload.remove()

    def _sweep_on(self) -> None:
        while not self._closed.wait(min(_SWEEP_S, keep_s() / 4)):
            self.sweep()

    def cancel(self) -> None:
        """Accept no new uploads and interrupt the running imports."""
        with self._lock:
            self._closed.set()

    def close(self, limit_s: float = _CLOSE_S) -> None:
        """Interrupt imports and wait this long for them; all bytes stay for the next server."""
        self.cancel()
        until_s = time.monotonic() + limit_s
        for thread in self._threads:
            # this thread may hold the last reference to the server
            if thread is not threading.current_thread():
                thread.join(max(0.0, until_s - time.monotonic()))
        with self._lock:
            uploads = list(self._uploads.values())
        for upload in uploads:
            upload.leave()

    def _work(self, upload: Upload) -> None:
        with self._one_at_a_time:
            tries = upload.storage.tries
            room = Room(upload.storage, self.runs, tries)
            try:
                while not self._closed.is_set() and upload.result.run is None:
                    self._import(upload, room)
            except UserError as error:
                upload.result.error = _named(upload, error)
            except OSError as error:
                upload.result.error = str(no_room(error))
            except Exception as error:
                upload.result.error = (
                    f"these files cannot be read ({type(error).__name__}); please report it"
                )
                raise  # a bug: the server's log gets the traceback, the page a sentence
            finally:
                self._ended(upload, tries)

    def _import(self, upload: Upload, room: Room) -> None:
        """Import, or wait until a full disk may have space again; raises UserError, OSError."""

        def is_over() -> bool:
            return upload.cancelled or self._closed.is_set()

        upload.state = "importing"
        try:
            import_files(upload.storage, self.runs, upload.result, is_over)
            return
        except (UserError, OSError) as error:
            if not is_out_of_space(error):
                raise
        upload.result = Import(num_bytes=upload.storage.files.num_bytes, error=_NO_ROOM)
        upload.state = "waiting"
        room.wait(is_over)
        upload.result.error = None

    def _ended(self, upload: Upload, tries: int) -> None:
        """Record how it ended; if the server stops, the next one begins the import again."""
        if self._closed.is_set() and upload.result.run is None and not upload.cancelled:
            if upload.storage.folder.is_dir():
                upload.storage.tries = tries
            upload.leave()
            return
        upload.remove()
        upload.state = "done" if upload.result.run is not None else "failed"
        with self._lock:
            ended = [i for i, other in self._uploads.items() if other.has_ended]
            for upload_id in ended[:-_MOST_RESULTS]:
                del self._uploads[upload_id]


def _named(upload: Upload, error: UserError) -> str:
    """The sentence, with the file names that the user knows."""
    return str(error).replace(printable(f"{upload.storage.files.folder}/"), "")


_uploads = PerHub(lambda hub: Uploads(hub.store.folder))


def uploads_of(hub: Hub) -> Uploads:
    """The uploads of a hub's server; closed with the hub at the latest."""
    return _uploads[hub]
