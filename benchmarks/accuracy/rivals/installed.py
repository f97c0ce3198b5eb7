"""Virtual environments of other tools, made where missing, and runs of their scripts."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
PLACE = _HERE.parents[2] / ".venv" / "rivals"
_INSTALL_S, _RUN_S = 900, 1800


@dataclass(frozen=True)
class Tool:
    """A tool: what pip installs for it, and the script that asks it."""

    name: str
    packages: tuple[str, ...]
    script: str
    with_dependencies: bool = True


NVRX = Tool("NVRx 0.4.1", ("nvidia-resiliency-ext==0.4.1", "torch==2.13.0"), "nvrx_scores.py")
HTA = Tool(
    "HTA 0.5.0",
    (
        "HolisticTraceAnalysis==0.5.0",
        "numpy<2.3",
        "pandas<3",
        "networkx",
        "plotly<6",
        "pydot",
        "narwhals",
        "packaging",
        "psutil",
        "pyparsing",
        "python-dateutil",
        "pytz",
        "pyyaml",
        "six",
        "tenacity",
        "tzdata",
    ),
    "hta_stragglers.py",
    with_dependencies=False,
)
"""Without Jupyter, which its finder does not need."""


def answers_of(tool: Tool, inputs: Path) -> dict[str, Any]:
    """Answers of the tool's script about a folder of jobs; {"error": text} where it cannot run."""
    try:
        python = _environment(tool)
        done = _run([python, str(_HERE / tool.script), str(inputs)], _RUN_S)
        answers: dict[str, Any] = json.loads(done.splitlines()[-1])
    except (subprocess.SubprocessError, OSError, ValueError, IndexError) as error:
        return {"error": _last_line(error)}
    return answers


def _environment(tool: Tool) -> str:
    """Python of the tool's environment; raises SubprocessError."""
    folder = PLACE / tool.script.removesuffix(".py")
    python = folder / "bin" / "python"
    if not (folder / ".ready").exists():
        _run([sys.executable, "-m", "venv", "--clear", str(folder)], _INSTALL_S)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        pip += [] if tool.with_dependencies else ["--no-deps"]
        _run([*pip, *tool.packages], _INSTALL_S)
        (folder / ".ready").touch()
    return str(python)


def _run(command: list[str], timeout_s: float) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=True)
    return done.stdout


def _last_line(error: Exception) -> str:
    output = getattr(error, "stderr", None) or str(error)
    return output.strip().splitlines()[-1][:200] if output.strip() else type(error).__name__
