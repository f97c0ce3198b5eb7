"""Trace an unmodified script: `python -m trace_hooks [options] train.py args`.

Also `-m module args`, and below torchrun: `torchrun ... -m trace_hooks train.py args`. The script
sees what it would see without hooks: sys.argv, sys.path[0], a `__main__` of its own (so that what
it pickles or spawns is found), the same exit code and the same traceback.

runpy.run_path alone would neither set sys.path[0] nor leave the module in place afterwards, which
pickling and spawned workers need.
"""

from __future__ import annotations

import argparse
import builtins
import runpy
import sys
from importlib.abc import InspectLoader
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, ModuleType, TracebackType

import trace_hooks


def read_arguments(argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Our own options, and the script's part of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m trace_hooks",
        usage="%(prog)s [options] (script.py | -m module) [args ...]",
        epilog="Every setting is also an environment variable TRACE_HOOKS_*; see docs/hooks.md.",
    )
    add = parser.add_argument
    add("--folder", help="folder of runs (default: TRACE_HOOKS_FOLDER, else runs)")
    # torchrun takes --run for its own --run-path, wherever it stands
    what = "id of the run, which is also the name of its folder; --run-id below torchrun"
    add("--run", "--run-id", dest="run", help=what)
    what = "sizes of the axes, the one that varies slowest with the rank first: pp=2,dp=2,tp=2"
    add("--layout", help=what)
    what = (
        "how much of the model is recorded: steps (nothing), blocks (transformer layers) or layers "
        "(also attention and MLP, the default)"
    )
    add("--level", help=what)
    add("--sources", help="sources to use, comma-separated; -NAME leaves one out (default: all)")
    add("-m", dest="module", action="store_true", help="run a module by its name")
    add("script", nargs=argparse.REMAINDER)
    arguments = parser.parse_args(argv)
    if not arguments.script:
        parser.error("name the script to trace")
    return arguments, arguments.script


def run_script(path: str) -> None:
    """Run a file as `python path` does."""
    file = Path(path)
    if file.is_dir() or file.suffix in (".zip", ".pyz"):
        sys.path[0] = path
        runpy.run_path(path, run_name="__main__")
        return
    sys.path[0] = str(file.resolve().parent)
    path = str(file.absolute())
    loader = SourceFileLoader("__main__", path)
    code = loader.source_to_code(file.read_bytes(), path)
    run_as_main(code, __file__=path, __loader__=loader, __package__=None, __spec__=None)


def run_module(name: str) -> None:
    """Run a module, or a package's __main__, as `python -m name` does."""
    sys.path[0] = str(Path.cwd())
    spec = find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = find_spec(f"{name}.__main__")
    if spec is None or not isinstance(spec.loader, InspectLoader):
        raise SystemExit(f"python -m trace_hooks: no module named {name} that can be run")
    code = spec.loader.get_code(spec.name)
    sys.argv[0] = spec.origin or name
    run_as_main(
        code, __file__=spec.origin, __loader__=spec.loader, __package__=spec.parent, __spec__=spec
    )


def run_as_main(code: CodeType | None, **attributes: object) -> None:
    """Run code as the new and lasting `__main__`, which multiprocessing knows by two names."""
    module = ModuleType("__main__")
    module.__dict__.update(attributes, __cached__=None, __builtins__=builtins)
    sys.modules["__main__"] = module
    if "__mp_main__" in sys.modules:
        sys.modules["__mp_main__"] = module
    if code is not None:
        exec(code, module.__dict__)


def without_our_frames(trace: TracebackType | None) -> TracebackType | None:
    """A traceback from the script's own first frame on."""
    while trace is not None and _is_ours(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return trace


def _is_ours(file_name: str) -> bool:
    return (
        file_name == __file__ or "runpy" in file_name or file_name.startswith("<frozen importlib")
    )


def show_plain_traceback() -> None:
    """Make an uncaught exception look as it does without hooks."""
    show = sys.excepthook

    def excepthook(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        plain = without_our_frames(trace)
        show(kind, error.with_traceback(plain), plain)

    sys.excepthook = excepthook


def main(argv: list[str]) -> None:
    """Start the hooks, then run the script."""
    arguments, command = read_arguments(argv)
    if not arguments.module and not Path(command[0]).exists():
        print(f"python -m trace_hooks: {command[0]} does not exist", file=sys.stderr)
        raise SystemExit(2)
    chosen = arguments.sources.split(",") if arguments.sources else None
    try:
        tracer = trace_hooks.start(
            arguments.folder,
            run=arguments.run,
            layout=arguments.layout,
            level=arguments.level,
            sources=chosen,
        )
    except ValueError as error:
        raise SystemExit(f"python -m trace_hooks: {error}") from None
    show_plain_traceback()
    sys.argv = command
    try:
        if arguments.module:
            run_module(command[0])
        else:
            run_script(command[0])
    except SystemExit as leaving:
        if leaving.code not in (None, 0):
            tracer.stop("failed", f"exit code {leaving.code}")
        raise


if __name__ == "__main__":
    main(sys.argv[1:])
