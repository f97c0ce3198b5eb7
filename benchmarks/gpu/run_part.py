"""Runs one part in a process of its own: python -m benchmarks.gpu.run_part NAME cuda|cpu FILE.

The part appends its figures to FILE, one JSON object per line. Exit code 3: the part cannot run
here; the last printed line gives the reason.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path

from benchmarks.gpu.figures import Figure, NotHere, Place, to_line

NOT_HERE = 3


def main() -> int:
    name, device, path = sys.argv[1:]

    def say(figure: Figure) -> None:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(to_line(figure))
        held = {True: "holds", False: "DOES NOT HOLD", None: ""}[figure.holds]
        value = f"{figure.value:,.4g}" if isinstance(figure.value, float) else str(figure.value)
        print(f"  {figure.name}: {value} {figure.unit} {held} {figure.note}".rstrip(), flush=True)

    part = importlib.import_module(f"benchmarks.gpu.parts.{name}")
    with tempfile.TemporaryDirectory() as folder:
        try:
            part.measure(Place(device, Path(folder), say))
        except NotHere as error:
            print(error)
            return NOT_HERE
    return 0


if __name__ == "__main__":
    sys.exit(main())
