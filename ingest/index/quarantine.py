"""Files sent to a run that are not what they claim to be: kept aside, never read.

They lie in `quarantine/` of the run folder, as many as there is room for, with one sentence each,
which are problems of the run.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path

from ingest.errors import printable
from ingest.index.index_database import IndexDatabase
from ingest.run_folder.run_paths import read_plain_file, require_no_links
from trace_hooks.schema import publish_json

FOLDER = "quarantine"
MOST_FILES = 50
MOST_BYTES = 64 << 20
_SENTENCES = "sentences.json"
_LONGEST_FILE = 1 << 20
_writing = threading.Lock()


class Quarantine:
    """The quarantine of one run."""

    def __init__(self, run_folder: Path) -> None:
        self._run_folder = run_folder
        self._folder = run_folder / FOLDER
        self._stored: tuple[int, int] | None = None

    def set_aside(self, path: Path, problem: str) -> None:
        """Move a file here, where there is room, and note what is wrong with it.

        Raises OSError, UserError where this folder is a link.
        """
        with _writing:
            self._make()
            self._take(path, problem, self._has_room(path.lstat().st_size))

    def keep(self, path: Path, problem: str) -> None:
        """Move a file here whatever its size: one of the run itself, which held data. Raises as
        set_aside does.
        """
        with _writing:
            self._make()
            self._take(path, problem, True)

    def _make(self) -> None:
        require_no_links(self._run_folder, FOLDER)
        self._folder.mkdir(exist_ok=True)

    def _take(self, path: Path, problem: str, has_room: bool) -> None:
        sentences, num_more = self._noted()
        if has_room:
            path.replace(self._folder / path.name)
            sentence = f"{problem}; it was set aside in {FOLDER}/"
        else:
            path.unlink()
            sentence = f"{problem}; it was dropped, as {FOLDER}/ is full"
        if sentence in sentences:  # it came again, the last time was interrupted
            return
        if len(sentences) < MOST_FILES:
            sentences.append(sentence)
        else:
            num_more += 1
        publish_json({"sentences": sentences, "more": num_more}, self._folder / _SENTENCES)

    def sentences(self) -> list[str]:
        """One sentence for each file that was set aside, and one for those beyond MOST_FILES."""
        sentences, num_more = self._noted()
        if num_more:
            sentences.append(f"{num_more} more files of ranks were not what they claimed to be")
        return sentences

    def store_problems(self, database: IndexDatabase) -> None:
        """Bring the problems of an index up to date."""
        stamp = self._stamp()
        if stamp == self._stored:
            return
        sentences = self.sentences()
        known = database.connection.execute(
            "SELECT text FROM problems WHERE source = ? ORDER BY rowid", [FOLDER]
        ).fetchall()
        if [text for (text,) in known] != sentences:
            with database.transaction():
                database.connection.execute("DELETE FROM problems WHERE source = ?", [FOLDER])
                for text in sentences:
                    database.connection.execute(
                        "INSERT INTO problems VALUES (?, ?)", [FOLDER, text]
                    )
        self._stored = stamp

    def _has_room(self, num_bytes: int) -> bool:
        sizes = [path.lstat().st_size for path in self._folder.iterdir() if path.name != _SENTENCES]
        return len(sizes) < MOST_FILES and sum(sizes) + num_bytes <= MOST_BYTES

    def _stamp(self) -> tuple[int, int] | None:
        try:
            state = (self._folder / _SENTENCES).lstat()
        except OSError:
            return None
        return state.st_mtime_ns, state.st_ino

    def _noted(self) -> tuple[list[str], int]:
        if self._folder.is_symlink():
            return [], 0
        try:
            noted = json.loads(read_plain_file(self._folder / _SENTENCES, _LONGEST_FILE))
            sentences = [printable(str(sentence)) for sentence in noted["sentences"]]
            return sentences[:MOST_FILES], int(noted["more"])
        except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return [], 0
