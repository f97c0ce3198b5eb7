"""How long archives of very many members take to import: 50,000 that are empty or hold a byte.

python -m benchmarks.many_members [NUMBER]
"""

from __future__ import annotations

import io
import json
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

from ingest.imports.importer import import_paths

EVENT = {"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 2}
RANK = {"rank": 0, "world_size": 1}
TRACE = json.dumps({"schemaVersion": 1, "distributedInfo": RANK, "traceEvents": [EVENT]}).encode()


def pack(path: Path, number: int, content: bytes) -> None:
    """An archive of one trace and `number` files with this content."""
    members = [("rank-0.json", TRACE), *((f"{n}.json", content) for n in range(number))]
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name, held in members:
                archive.writestr(name, held)
        return
    with tarfile.open(path, "w") as archive:
        for name, held in members:
            info = tarfile.TarInfo(name)
            info.size = len(held)
            archive.addfile(info, io.BytesIO(held))


def main() -> None:
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    for kind in ("tar", "zip"):
        for what, content in (("empty", b""), ("of one byte", b"x")):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / f"a.{kind}"
                pack(path, number, content)
                begun_s = time.monotonic()
                import_paths([path], Path(folder) / "runs")
                print(f"{kind}, {number:,} members {what}: {time.monotonic() - begun_s:.1f} s")


if __name__ == "__main__":
    main()
