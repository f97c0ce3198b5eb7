"""The process in which mutated files are read: `python -m tests.hostile.fuzz.worker FOLDER`.

It does what a reading process of an import does (ingest.imports.worker), order by order, and beyond
that ends itself where anything happens that reading a file never needs.
"""

from __future__ import annotations

import io
import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ingest.imports.parts import format_of
from ingest.imports.worker import FINDINGS, Worker
from ingest.readers import readers
from ingest.run_folder.run_writer import Findings, RunWriter

LIMIT_BYTES = 3 << 30
HANGS_S = 100.0
ESCAPED = 7
"""Exit status of a worker that did what it must not do."""
FORBIDDEN = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "subprocess.Popen",
    "socket.connect",
    "os.remove",
    "os.rename",
    "os.mkdir",
    "os.symlink",
    "os.link",
    "shutil.rmtree",
)
PLANTS = {"crash": b"PLANTED crash", "hang": b"PLANTED hang", "escape": b"PLANTED escape"}
_OWN_CLASSES = ("ingest.", "trace_hooks.", "array", "numpy", "collections", "pathlib", "builtins")
_LONGEST_NAMED = 200


def guard(folder: Path) -> None:
    """End the process where anything is written, started or reached outside of `folder`."""
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
        elif event == "pickle.find_class":
            # parts of our own are pickled; what they are made of is in ingest.imports.worker
            outside = not str(args[0]).startswith(_OWN_CLASSES)
        elif event in FORBIDDEN:
            places = [str(arg) for arg in args if isinstance(arg, str | Path)]
            in_place = bool(places) and all(place.startswith(inside) for place in places)
            outside = not (event.startswith(("os.", "shutil.")) and in_place)
        if outside:
            sys.stderr.write(f"escape: {event} {str(args[:1])[:_LONGEST_NAMED]}\n")
            sys.stderr.flush()
            os._exit(ESCAPED)

    sys.addaudithook(hook)


class _Refused(Exception):
    """The import ended with a sentence."""


def _imported(path: Path, run: Path) -> tuple[bool, list[str]]:
    """Read a file and write the run: whether a reader knew it, and its problems."""
    found = run / "reading"
    (found / "00000000").mkdir(parents=True)
    (run / "shown").mkdir()
    size, into = path.stat().st_size, str(found / "00000000")
    answers = _obeyed({"read": str(path), "bytes": size, "into": into, "show": str(run / "shown")})
    formats = [(answer["part"], answer["format"]) for answer in answers if "part" in answer]
    chosen = format_of(formats)
    _obeyed({"put_together": str(found), "format": chosen, "run": str(run)})
    findings = Findings.from_json(json.loads((found / FINDINGS).read_text("utf-8")))
    if findings.ranks:
        RunWriter(run, findings).publish("fuzz", chosen, [])
    elif not findings.problems:
        raise ValueError("neither a rank nor a problem")
    return any(own for _, own in formats), findings.problems


def _obeyed(order: dict[str, Any]) -> list[dict[str, Any]]:
    answers = io.StringIO()
    Worker(answers).obey(order)
    messages = [json.loads(line) for line in answers.getvalue().splitlines()]
    if "refused" in messages[-1]:
        raise _Refused(messages[-1]["refused"])
    return messages


def _result(path: Path, run: Path) -> dict[str, Any]:
    known, problems, end = False, list[str](), "run"
    try:
        known, problems = _imported(path, run)
        end = "run" if (run / "run.json").exists() else "refused"
    except _Refused as refusal:
        known, problems, end = True, [str(refusal)], "refused"
    except BaseException as error:  # noqa: BLE001  # what is looked for
        end = f"raised {type(error).__name__}: {error}"[:300]
    if not all(problem.isprintable() for problem in problems):
        end = "a problem that is no sentence"
    failures = [p[:400] for p in problems if "reader failed on it (" in p or "needed more" in p]
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"known": known, "end": end, "failures": failures, "peak_mib": peak_kib >> 10}


def do_what_is_planted(content: bytes) -> None:
    """Crash, hang or write outside."""
    if content == PLANTS["crash"]:
        os.abort()
    elif content == PLANTS["hang"]:
        time.sleep(HANGS_S)
    else:
        Path(tempfile.gettempdir(), "../../../../escaped").resolve().write_text("out")


def import_all() -> None:
    """Import what readers import when they need it: later that would look like an escape."""
    list(readers())
    for name in (
        "array",
        "sqlite3",
        "yaml",
        "pyarrow.compute",
        "pyarrow.parquet",
        "ingest.imports.preview",
    ):
        __import__(name)


def main(folder: Path) -> None:
    """Import the files named on stdin, next to each; one result line each on stdout."""
    import_all()
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    guard(folder)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for number, line in enumerate(sys.stdin):
        path = Path(line.rstrip("\n"))
        content = path.read_bytes()
        if content in PLANTS.values():
            do_what_is_planted(content)
        result = _result(path, path.parent / f"run-{os.getpid()}-{number}")
        sys.stdout.write(json.dumps(result) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
