"""Print the lines that trace a training script, for the framework that the script uses.

The script is read, and never run.
"""

from __future__ import annotations

import argparse
import ast
import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ingest.errors import UserError, printable

LARGEST_BYTES = 10_000_000
TORCHRUN = "torchrun --nproc-per-node auto"


@dataclass(frozen=True)
class Framework:
    """A framework: the line behind `import trace_hooks as th`, and what starts a script."""

    title: str
    line: str
    where: str
    launcher: str = TORCHRUN

    @property
    def starts_ranks(self) -> bool:
        """Whether the script or its launcher starts ranks that must inherit the hooks."""
        return self.launcher != TORCHRUN


INHERIT = "python -m trace_hooks.inherit install      # once in this environment"

FRAMEWORKS = {
    "hf": Framework(
        "Hugging Face's Trainer",
        "trainer = {name}(..., callbacks=[th.hf.Callback()])",
        "where the trainer is made",
    ),
    "lightning": Framework(
        "Lightning",
        "trainer = {name}(..., callbacks=[th.lightning.Callback()])",
        "where the trainer is made",
        "python",
    ),
    "accelerate": Framework(
        "Accelerate",
        "accelerator = {name}(..., log_with=th.accelerate.Tracker())",
        "where the accelerator is made; then accelerator.init_trackers(NAME), and "
        'accelerator.log({"loss": loss}) after each step',
    ),
    "deepspeed": Framework(
        "DeepSpeed",
        "th.deepspeed.watch(engine)",
        "behind deepspeed.initialize",
        "deepspeed",
    ),
    "megatron": Framework("Megatron", "th.megatron.install()", "before training begins"),
    "torchtitan": Framework("torchtitan", "th.torchtitan.install()", "before training begins"),
    "torch": Framework(
        "torch alone",
        "tracer = th.start()",
        "before the model is made; tracer.log(loss=loss) after each step adds the loss",
    ),
}

MAKERS = {
    "hf": (("transformers", "trl"), "Trainer"),
    "lightning": (("lightning", "pytorch_lightning"), "Trainer"),
    "accelerate": (("accelerate",), "Accelerator"),
}
"""Packages, and how the name of their class that trains ends."""

BY_IMPORT = ("deepspeed", "megatron", "torchtitan")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `rankscope init`."""
    parser.add_argument("script", type=Path, metavar="SCRIPT", help="the training script")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Print what to add to the script, and how to start it. Raises UserError."""
    script: Path = arguments.script
    found = used(parsed(script))
    if not found:
        raise UserError(
            f"{script} imports neither torch nor a framework that trains; name the script that "
            "makes the model or the trainer"
        )
    if arguments.json:
        print(
            json.dumps({"script": str(script), "frameworks": [answer(*f, script) for f in found]})
        )
        return 0
    name = printable(str(script))
    if len(found) > 1:
        titles = " and ".join(FRAMEWORKS[framework].title for framework, *_ in found)
        print(f"{name} uses {titles}: add the lines of the one whose loop trains.\n")
    for framework, *place in found:
        print(text(answer(framework, *place, script), name))
    print("The run appears in runs/; `rankscope serve runs` shows it while the job runs.")
    return 0


def parsed(script: Path) -> ast.Module:
    """Syntax tree of a script; raises UserError where there is none."""
    if script.suffix == ".ipynb":
        raise UserError(
            f"{script} is a notebook; put `import trace_hooks as th` and th.start() in it"
        )
    try:
        if script.exists() and not script.is_file():  # a pipe would be waited for
            raise UserError(f"{script} is not a file; name the training script")
        if script.stat().st_size > LARGEST_BYTES:
            raise UserError(f"{script} is larger than {LARGEST_BYTES:,} bytes; name a script")
        return ast.parse(script.read_bytes())
    except OSError as error:
        raise UserError(f"{script} cannot be read ({error.strerror}); name a Python file") from None
    except SyntaxError as error:
        at = f" in line {error.lineno}" if error.lineno else ""
        raise UserError(f"{script} is not valid Python{at}; name the training script") from None
    except (ValueError, RecursionError, MemoryError):
        raise UserError(f"{script} is not valid Python; name the training script") from None


def used(tree: ast.Module) -> list[tuple[str, str, int | None]]:
    """Frameworks of a script: name, the class that it calls, and the line of the call."""
    names = imported(tree)
    found: dict[str, tuple[str, int | None]] = {}
    for package, kind, shown, line in called(tree, names):
        for framework, (owners, ending) in MAKERS.items():
            if package in owners and kind.endswith(ending):
                found.setdefault(framework, (shown, line))
    packages = {package for package, _ in names.values()}
    found |= {framework: ("", None) for framework in BY_IMPORT if framework in packages}
    if not found and "torch" in packages:
        found["torch"] = "", None
    return [(framework, *place) for framework, place in found.items()]


def imported(tree: ast.Module) -> dict[str, tuple[str, str]]:
    """Package and name there of what the script imports, by its name in the script."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                package = alias.name.partition(".")[0]
                names[alias.asname or package] = package, ""
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = node.module.partition(".")[0], alias.name
    return names


def called(
    tree: ast.Module, names: dict[str, tuple[str, str]]
) -> Iterator[tuple[str, str, str, int]]:
    """Calls of what packages define, and of classes derived from it: package, name there, name in
    the script, line."""

    def origin(node: ast.expr) -> tuple[str, str]:
        package, name = names.get(root(node), ("", ""))
        return package, node.attr if isinstance(node, ast.Attribute) else name

    nodes = list(ast.walk(tree))
    derived = {}
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            for base in node.bases:
                if origin(base)[0]:
                    derived[node.name] = origin(base)
    for node in nodes:
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else root(node.func)
            yield *derived.get(name, origin(node.func)), name, node.lineno


def root(node: ast.expr) -> str:
    """`a` of a.b.c; empty where it is another expression."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def answer(framework: str, name: str, line: int | None, script: Path) -> dict[str, object]:
    """What to add, where, and the commands with and without it."""
    known, path = FRAMEWORKS[framework], shlex.quote(str(script))
    return {
        "framework": framework,
        "title": known.title,
        "lines": ["import trace_hooks as th", known.line.format(name=name)],
        "where": known.where,
        "line": line,
        "command": f"{known.launcher} {path}",
        "unchanged": unchanged(known, path),
    }


def unchanged(known: Framework, path: str) -> list[str]:
    """Commands that trace the script as it is; `path` is quoted."""
    if not known.starts_ranks:
        return [f"{known.launcher} -m trace_hooks {path}"]
    return [INHERIT, f"TRACE_HOOKS_AUTO=1 {known.launcher} {path}"]


def text(found: dict[str, object], name: str) -> str:
    """The same in words."""
    first, second = found["lines"]  # type: ignore[misc]
    commands = "\n    ".join(found["unchanged"])  # type: ignore[arg-type]
    at = f"in line {found['line']}, " if found["line"] else ""
    return (
        f"{name} trains with {found['title']}. Add two lines, the second {at}{found['where']}:\n\n"
        f"    {first}\n    {second}\n\nStart it as before:\n\n    {found['command']}\n\n"
        f"Or change nothing, and start it with the hooks:\n\n    {commands}\n"
    )
