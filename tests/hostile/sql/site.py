"""One place of attack: a stage, a process over it, and the checks after each statement."""

from __future__ import annotations

import shutil
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.hostile.sql import watch
from tests.hostile.sql.process import Process, Reply
from tests.hostile.sql.sql_file import listed
from tests.hostile.sql.stage import Stage

_ELSEWHERE = ("/tmp", "/dev/shm", "/var/tmp")


@dataclass(frozen=True)
class Violation:
    """What one statement did that it must not: write | read | limit."""

    kind: str
    detail: str


class Site:
    """Executes statements and reports what they did."""

    def __init__(self, folder: Path, token: str, layers: frozenset[str]) -> None:
        self.stage = Stage(folder, token)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self.stage.words["PORT"] = str(self._listener.getsockname()[1])
        self.process = Process(self.stage, layers)
        self._opens: watch.Opens | None = None
        self._state: dict[str, str] = {}
        self.begin()

    def begin(self) -> None:
        """Start from what is there now: what changes later was changed by a statement."""
        self.process.kill()
        self.process.start()
        self._state = self._answers([one.text for one in listed("state.sql")])
        if self._opens is not None:
            self._opens.close()
        stage = self.stage
        secrets = [stage.outside, *stage.outside.iterdir(), *stage.other.rglob("*.parquet")]
        secrets += [stage.home / "secret.txt", stage.work / "secret.txt", stage.work / "secret.csv"]
        secrets += list((stage.run / "segments").glob("frames-*"))
        self._opens = watch.Opens(secrets)
        self._files = watch.files([stage.folder])
        self._hash = watch.content_hash([stage.folder])
        self._opens.since()

    def _answers(self, texts: list[str]) -> dict[str, str]:
        replies = {text: self.process.ask(text, wants_digest=True) for text in texts}
        return {text: reply.digest for text, reply in replies.items() if reply.kind == "rows"}

    def run(self, text: str, is_secret: bool = False) -> tuple[Reply, list[Violation]]:
        """Execute a statement and look at what can be seen at once; `is_secret`: any value is."""
        reply = self.process.ask(self.stage.concrete(text))
        violations = [Violation("read", leak) for leak in reply.leaks]
        if is_secret and reply.has_values:
            violations.append(Violation("read", "value of a setting"))
        if reply.passed:
            violations.append(Violation("limit", reply.passed))
        assert self._opens is not None
        violations += [
            Violation("read", f"opened {self._short(path)}") for path in self._opens.since()
        ]
        aborted = reply.kind == "stopped" and self.process.remove_abort_message()
        files = watch.files([self.stage.folder])
        if aborted:
            printed = str(self.process.printed)
            self._files[printed] = files[printed]
        if files != self._files:
            changed = watch.differences(self._files, files)
            violations.append(Violation("write", self._short("; ".join(changed[:4]))))
        self._opens.since()  # our own look at the folders
        with suppress(BlockingIOError):
            self._listener.accept()[0].close()
            violations.append(Violation("read", "a connection to the network"))
        if reply.kind == "lost":
            self.begin()
        return reply, violations

    def changed_state(self) -> list[Violation]:
        """What takes longer to see: tables, settings, contents, files elsewhere."""
        after = self._answers(list(self._state))
        violations = [
            Violation("write", f"another answer later: {' '.join(text.split())[:80]}")
            for text, digest in self._state.items()
            if after.get(text) != digest
        ]
        violations += [Violation("write", f"made {path}") for path in self._elsewhere()]
        if watch.content_hash([self.stage.folder]) != self._hash:
            violations.append(Violation("write", "content of files"))
        assert self._opens is not None
        self._opens.since()
        return violations

    def restore(self) -> None:
        """Everything as it was at first, with a new process."""
        self.process.kill()
        self.stage.restore()
        for path in self._elsewhere():
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        self.begin()

    def _elsewhere(self) -> list[Path]:
        return [p for folder in map(Path, _ELSEWHERE) for p in folder.glob(f"*{self.stage.token}*")]

    def _short(self, text: str) -> str:
        return text.replace(str(self.stage.folder), "...")

    def close(self) -> None:
        """End the process and delete the folders."""
        self.process.kill()
        if self._opens is not None:
            self._opens.close()
        self._listener.close()
        self.stage.remove()
