"""The `rankscope` command: a flat list of verbs; only main() turns errors into exit codes."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from app import interrupts
from app.commands.given_path import given_path
from ingest.errors import UserError, printable

VERBS = {
    "demo": "run a real 8-rank training job and watch it live",
    "init": "print the lines that trace a training script",
    "import": "read trace files of any known format into a run folder",
    "serve": "open the dashboard for a folder of runs",
    "token": "list the tokens and sessions of served dashboards, and revoke them",
    "info": "summarise a run, a file or a folder of traces",
    "diagnose": "report which ranks are slow and why, with evidence",
    "selftest": "test devices and links before a job: print the command, or read the result",
    "whatif": "estimate step times without stragglers, and list what findings cost",
    "mfu": "show where the time of the devices goes, and since when more of it is lost",
    "fleet": "what all runs of a folder lose, and to what; hosts that are slow again and again",
    "goodput": "show how much of a run's time was training, and what was slow before it",
    "query": "query a run with SQL or with a saved query",
    "export": "write a run, or what a view of it shows, into one file",
    "layout": "correct the parallel layout of an imported run by hand",
    "index": "index a folder of runs, once or continuously",
    "doctor": "check every file of a run against its index, and repair it",
    "gc": "remove old steps and old runs, by age and by size",
    "pin": "pin links whose steps gc keeps, and list them",
    "generate": "create a synthetic run with known faults",
}
MODULES = {"import": "import_files"}
"""Modules with another name than their verb: `import` is a Python keyword."""
SERVERS = ("demo", "serve")
"""Verbs that run for days: their memory allocator is set up before anything else is loaded."""

EXIT_OK = 0
EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130

INTERRUPTED_IN_DUCKDB = "Query interrupted"
"""Text of DuckDB's RuntimeError for a Ctrl-C during a query (seen with 2.0)."""

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; returns 0 healthy, 2 user error, 130 interrupted (diagnose: 3, 4 too).

    Imports only the chosen verb's module: the others would slow its start.
    """
    command_line = sys.argv[1:] if arguments is None else list(arguments)
    named = next((argument for argument in command_line if not argument.startswith("-")), None)
    parser = argparse.ArgumentParser(
        prog="rankscope",
        description="See what every rank of a distributed training job does, and who is slow.",
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for verb, help_text in VERBS.items():
        own = verbs.add_parser(verb, help=help_text)
        if verb == named:
            if verb in SERVERS:
                import_module("ingest.process_tuning").return_freed_memory()
            module = import_module(f"app.commands.{MODULES.get(verb, verb)}")
            own.register("type", Path, given_path)  # whatever a verb has as type=Path
            own.description = module.__doc__
            module.add_arguments(own)
            own.set_defaults(run=module.run)
    chosen = parser.parse_args(command_line)
    try:
        code = _code_of(chosen)
    except SystemExit as ended:  # SIGTERM
        code = int(ended.code or 0)
    if "leave" in chosen:  # set by verbs that serve: they may have threads that cannot be stopped
        chosen.leave(code)
    return code


def _code_of(chosen: argparse.Namespace) -> int:
    """Run the verb; every error that is not a bug becomes one sentence and an exit code."""
    try:
        with interrupts.remembered():
            code: int = chosen.run(chosen)
            sys.stdout.flush()
            interrupts.check()
    except UserError as error:
        print(f"rankscope {chosen.verb}: {error}", file=sys.stderr)
        return EXIT_USER_ERROR
    except (KeyboardInterrupt, RuntimeError) as error:
        if isinstance(error, RuntimeError) and str(error) != INTERRUPTED_IN_DUCKDB:
            raise
        print(f"rankscope {chosen.verb}: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader (head, less) has closed the pipe
        _drop_output()
        return EXIT_OK
    except OSError as error:
        if error.filename is None:
            if error.errno not in _FULL:
                raise
            _drop_output()
        print(f"rankscope {chosen.verb}: {_sentence_of(error)}", file=sys.stderr)
        return EXIT_USER_ERROR
    return code


def _sentence_of(error: OSError) -> str:
    """What the system refused: a file that it names, else what is printed."""
    if error.filename is None:
        why = error.strerror
        return f"the output cannot be written ({why}); write it to a disk with free space"
    path = printable(str(error.filename))  # a path, or the number of an open file
    return f"{path} cannot be used ({error.strerror}); check the path and its permissions"


def _drop_output() -> None:
    """Discard the rest of the output: Python would try to write it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
