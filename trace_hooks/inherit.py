"""Hooks in the ranks that a job starts by itself: Lightning, torch.multiprocessing, accelerate.

    python -m trace_hooks.inherit install      once in the environment of the job
    TRACE_HOOKS_AUTO=1 python train.py         every rank that the script starts is traced
    python -m trace_hooks.inherit uninstall

`install` writes a line into the environment's site-packages (trace_hooks_auto.pth), which Python
runs at its start. Without TRACE_HOOKS_AUTO=1 that line does nothing. With it, a process is traced
from the moment in which it calls torch.distributed.init_process_group: workers of data loaders,
launchers and tools never do, and nothing is imported into them.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import sys
import sysconfig
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from trace_hooks.recording.guard import guarded
from trace_hooks.settings import AUTO

TARGET = "torch.distributed.distributed_c10d"
"""Defines init_process_group; torch.distributed takes the function over from there."""

FILE = "trace_hooks_auto.pth"

LINE = (
    f"import os; os.environ.get('{AUTO}') == '1'"
    " and __import__('trace_hooks.inherit').inherit.begin()\n"
)


def begin() -> None:
    """Have this process traced once it joins a process group."""
    if TARGET in sys.modules:
        _wrap(sys.modules[TARGET])
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Finds the one module as Python does, and has it changed after it is imported."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != TARGET:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Wrapping(spec.loader)
        return spec


class _Wrapping(Loader):
    """The loader of a module, with our change after it."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _wrap(module)


def _wrap(module: ModuleType) -> None:
    original = module.init_process_group
    if getattr(original, "starts_hooks", False):
        return

    @functools.wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        _start()
        return original(*args, **kwargs)

    init_process_group.__dict__["starts_hooks"] = True
    module.init_process_group = init_process_group  # type: ignore[attr-defined]


@guarded("inherit.start", stays_on=True)
def _start() -> None:
    import trace_hooks

    trace_hooks.start()  # returns the tracer that is already running


def main(argv: Sequence[str]) -> None:
    """Write or remove the line that Python runs at its start."""
    parser = argparse.ArgumentParser(prog="python -m trace_hooks.inherit", description=__doc__)
    parser.add_argument("action", choices=("install", "uninstall"))
    action = parser.parse_args(argv).action
    path = Path(sysconfig.get_paths()["purelib"]) / FILE
    try:
        if action == "install":
            path.write_text(LINE, encoding="utf-8")
            print(f"{path} is written; {AUTO}=1 switches it on")
        else:
            path.unlink(missing_ok=True)
            print(f"{path} is removed")
    except OSError as error:
        raise SystemExit(f"python -m trace_hooks.inherit: {path}: {error.strerror}") from None


if __name__ == "__main__":
    main(sys.argv[1:])
