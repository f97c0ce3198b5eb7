"""Mutated files of every format, imported by workers under limits: `python -m tests.hostile.fuzz`.

A worker has bounded memory and 10 s per file. It must end each file as a run or as one sentence; it
must not crash, hang, write outside its folder, start anything or reach for the network. What a
reader lets through to the boundary in ingest/imports.py is counted by its type.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import select
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LIMIT_S = 10.0
LIMIT_BYTES = 3 << 30
FORBIDDEN = ("os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen",
             "socket.connect", "pickle.find_class", "os.remove", "os.rename", "os.mkdir",
             "os.symlink", "os.link", "shutil.rmtree")  # fmt: skip
PLANTS = {"crash": b"PLANTED crash", "hang": b"PLANTED hang", "escape": b"PLANTED escape"}
_TOKENS = [b"NaN", b"-Infinity", b"1e999", b"9" * 400, b"-1", b'"x"', b"null", b"[" * 3000,
           b"{}", b"\x00", b"\xff\xfe", b"\\ud800", b'"', b"]", b"}", b",", b"9223372036854775808",
           b"2147483648", b"0", b"true", b"[[1]]", b"\x1b[2J"]  # fmt: skip
_READER_FAILED = "reader failed on it ("


# The worker


def _guard(folder: Path) -> None:
    """Ends the process (exit status 7) where anything is done that reading a file never needs."""
    inside = str(folder.resolve())
    allowed = (inside, "/dev/null")

    def hook(event: str, args: tuple[Any, ...]) -> None:
        outside = False
        if event == "open":
            path, mode, flags = (*args, 0)[:3]
            writes = any(c in str(mode or "") for c in "wax+") or bool(
                isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            )
            outside = writes and isinstance(path, str) and not path.startswith(allowed)
        elif event in FORBIDDEN:
            places = [str(arg) for arg in args if isinstance(arg, str | Path)]
            in_place = bool(places) and all(place.startswith(inside) for place in places)
            outside = not (event.startswith(("os.", "shutil.")) and in_place)
        if outside:
            sys.stderr.write(f"escape: {event} {args!r}\n")
            sys.stderr.flush()
            os._exit(7)

    sys.addaudithook(hook)


def worker(folder: Path) -> None:
    """Import the files named on stdin, one result line each on stdout."""
    from ingest.errors import UserError
    from ingest.imports import import_paths
    from ingest.readers import inputs, reader_of, readers

    readers()
    for name in ("array", "sqlite3", "yaml", "pyarrow.parquet"):
        __import__(name)
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    _guard(folder)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for number, line in enumerate(sys.stdin):
        path = Path(line.rstrip("\n"))
        if path.read_bytes()[:7] == b"PLANTED":
            _do_what_is_planted(path.read_bytes())
        try:
            known = any(reader_of(source) for source in inputs.sources([path], lambda _: None))
        except Exception:  # noqa: BLE001  # recognising may fail; the import says how it ends
            known = False
        result: dict[str, Any] = {"known": known, "end": "run", "failures": []}
        try:
            run = import_paths([path], folder / f"runs{number}")
            problems = json.loads((run / "run.json").read_text())["problems"]
        except UserError as error:
            problems = [str(error)]
            result["end"] = "refused"
            if not str(error).isprintable():
                result["end"] = "a refusal that is no sentence"
        except BaseException as error:  # noqa: BLE001  # what is looked for
            result["end"] = f"raised {type(error).__name__}: {error}"[:300]
            problems = []
        result["failures"] = [p[:400] for p in problems if _READER_FAILED in p]
        sys.stdout.write(json.dumps(result) + "\n")
        sys.stdout.flush()


def _do_what_is_planted(content: bytes) -> None:
    if content == PLANTS["crash"]:
        os.abort()
    elif content == PLANTS["hang"]:
        time.sleep(10 * LIMIT_S)
    else:
        Path(tempfile.gettempdir(), "..", "..", "escaped").resolve().write_text("out")


# The harness


class Worker:
    """A process that imports files, started again whenever it is lost."""

    def __init__(self, folder: Path, limit_s: float = LIMIT_S) -> None:
        self._folder = folder
        self.limit_s = limit_s
        self._process: subprocess.Popen[str] | None = None

    def run(self, path: Path) -> dict[str, Any]:
        """How one file ends; `end` is run, refused, or what went wrong."""
        process = self._process or self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{path}\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], self.limit_s)
        line = process.stdout.readline() if ready else ""
        if line:
            found: dict[str, Any] = json.loads(line)
            return found
        if ready:
            status = process.wait()
            end = "escape" if status == 7 else f"crash (status {status})"
        else:
            end = f"hang (over {self.limit_s} s)"
        self.close()
        return {"known": True, "end": end, "failures": []}

    def _started(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.hostile.fuzz", "--worker", str(self._folder)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            cwd=Path(__file__).resolve().parents[2],
        )  # fmt: skip
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"  # starting is no file's fault
        return self._process

    def close(self) -> None:
        """End the process, however it is."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()
            self._process = None


def mutated(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """The content with 1 to 8 changes; in half of all cases its first 200 bytes stay.

    What ends in a directory (Parquet, zip) keeps its end in two of three cases.
    """
    kept = 200 if rng.random() < 0.5 and len(content) > 400 else 0
    has_end = content[-4:] == b"PAR1" or content[:2] == b"PK"
    end = len(content) * 2 // 3 if has_end and rng.random() < 0.67 else len(content)
    head, data, tail = content[:kept], bytearray(content[kept:end]), content[end:]
    for _ in range(rng.randint(1, 8)):
        if not data:
            break
        _MUTATIONS[rng.randrange(len(_MUTATIONS))](data, others, rng)
    return head + bytes(data) + tail


def _flip(data: bytearray, _: list[bytes], rng: random.Random) -> None:
    for _ in range(rng.randint(1, 20)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _cut(data: bytearray, _: list[bytes], rng: random.Random) -> None:
    del data[rng.randrange(len(data)) :]


def _remove(data: bytearray, _: list[bytes], rng: random.Random) -> None:
    at = rng.randrange(len(data))
    del data[at : at + rng.randint(1, 200)]


def _repeat(data: bytearray, _: list[bytes], rng: random.Random) -> None:
    at = rng.randrange(len(data))
    piece = data[at : at + rng.randint(1, 300)]
    data[at:at] = piece * rng.randint(1, 20)


def _insert(data: bytearray, _: list[bytes], rng: random.Random) -> None:
    at = rng.randrange(len(data))
    data[at:at] = rng.choice(_TOKENS)


def _replace_number(data: bytearray, _: list[bytes], rng: random.Random) -> None:
    digits = [i for i in range(len(data)) if 48 <= data[i] <= 57]
    if digits:
        at = rng.choice(digits)
        data[at : at + rng.randint(1, 4)] = rng.choice(_TOKENS)


def _splice(data: bytearray, others: list[bytes], rng: random.Random) -> None:
    other = rng.choice(others)
    start, at = rng.randrange(len(other)), rng.randrange(len(data))
    data[at : at + rng.randint(0, 500)] = other[start : start + rng.randint(1, 500)]


_MUTATIONS: list[Callable[[bytearray, list[bytes], random.Random], None]] = [
    _flip, _cut, _remove, _repeat, _insert, _insert, _replace_number, _replace_number, _splice,
]  # fmt: skip


@dataclass
class Report:
    """What a campaign found."""

    seed: int
    num_files: Counter[str] = field(default_factory=Counter)
    num_known: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    failures: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    wrong: list[str] = field(default_factory=list)
    slowest_s: float = 0.0
    slowest: str = ""

    def lines(self) -> Iterator[str]:
        """The report for people."""
        yield f"random seed {self.seed}; slowest file {self.slowest_s:.2f} s ({self.slowest})"
        for name, number in sorted(self.num_files.items()):
            share = 100 * self.num_known[name] / number
            yield f"{name:20} {number:6} files, {share:3.0f} % recognised"
        yield f"ends: {dict(self.ends)}"
        for kind, examples in sorted(self.failures.items()):
            yield f"let through to the boundary: {len(examples)} x {kind}, such as {examples[0]}"
        yield from (f"WRONG: {text}" for text in self.wrong)


def campaign(per_format: int, seed: int, folder: Path, only: str = "") -> Report:
    """Import so many mutated files of each format; files that end wrongly stay in `folder`."""
    from tests.hostile.seeds import seeds

    rng = random.Random(seed)
    report = Report(seed)
    work = folder / "work"
    work.mkdir(parents=True)
    one = Worker(work)
    try:
        for name, files in seeds().items():
            others = [content for _, content in files if content]
            for number in range(per_format if others and only in name else 0):
                file_name, content = files[number % len(files)]
                path = work / f"{name}-{number}" / file_name
                path.parent.mkdir()
                path.write_bytes(mutated(content, others, rng))
                _one(one, name, path, report, folder)
            _tidy(work)
    finally:
        one.close()
    return report


def _one(one: Worker, name: str, path: Path, report: Report, folder: Path) -> None:
    begin_s = time.perf_counter()
    result = one.run(path)
    took_s = time.perf_counter() - begin_s
    if took_s > report.slowest_s:
        report.slowest_s, report.slowest = took_s, path.parent.name
    report.num_files[name] += 1
    report.num_known[name] += bool(result["known"])
    end = result["end"]
    report.ends[end if end in ("run", "refused") else "wrong"] += 1
    for failure in result["failures"]:
        report.failures[f"{name} {failure.partition(_READER_FAILED)[2][:60]}"].append(failure)
    if end not in ("run", "refused"):
        kept = folder / f"{path.parent.name}-{path.name}"
        kept.write_bytes(path.read_bytes())
        report.wrong.append(f"{kept}: {end}")


def _tidy(work: Path) -> None:
    subprocess.run(["rm", "-rf", *map(str, work.iterdir())], check=True)


def main() -> int:
    """Run a campaign and print its report; exit code 1 where anything went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worker", type=Path)
    parser.add_argument("--per-format", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--only", default="", help="formats whose name holds this")
    given = parser.parse_args()
    if given.worker:
        worker(given.worker)
        return 0
    folder = Path(tempfile.mkdtemp(prefix="rankscope-fuzz-"))
    report = campaign(given.per_format, given.seed, folder, given.only)
    print("\n".join(report.lines()))
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
