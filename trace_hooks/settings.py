"""What a user chose: arguments of `start` first, then TRACE_HOOKS_* of the environment."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trace_hooks.layout import AXES, EXPERT_AXES, ParallelLayout
from trace_hooks.protocol.server_address import Address, read_address
from trace_hooks.protocol.watches import MAX_TEXT, Watch, watches_from_text
from trace_hooks.source_names import LEVELS, SOURCES

JOB_ID_VARIABLES = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID", "TORCHX_JOB_ID")
"""Where schedulers put a job's id, which a requeued job keeps."""

AUTO = "TRACE_HOOKS_AUTO"
"""Where it is 1, processes are traced from init_process_group on; see trace_hooks/inherit.py."""

_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=@-]{0,119}")


@dataclass(frozen=True)
class Settings:
    """How one process is to be traced."""

    folder: Path
    run: str | None  # None: rank 0 makes one
    level: str
    sources: tuple[str, ...]
    layout: ParallelLayout | None
    ring_folder: Path | None  # None: /dev/shm, else the temporary folder
    silent_s: float  # a rank without a heartbeat this long is silent ...
    lost_s: float  # ... and lost
    stalled_s: float  # one that lives, but makes no step this long, is stalled
    spans_every: int = 1  # steps from one with its spans to the next; 0: sums of each step only
    statistics_every: int = 0  # steps from one with tensor statistics to the next; 0: never
    allow_content: bool = False  # values of tensors may be recorded
    watches: tuple[Watch, ...] = ()  # content to capture from the start
    allow_perturbation: bool = False  # the model may be changed while it trains
    server: Address | None = None  # of the dashboard that shows this rank live
    ships: bool = False  # send its files there; the folder only holds them until then
    telemetry: bool = True  # the host's watchdog samples the machine
    collector: bool = True  # ... and publishes the rows of the host's ranks, in few files

    def __post_init__(self) -> None:
        if self.ships and self.server is None:
            raise ValueError("TRACE_HOOKS_SHIP needs TRACE_HOOKS_SERVER, where the files are sent")
        if self.ships and self.collector:
            raise ValueError(
                "TRACE_HOOKS_SHIP and TRACE_HOOKS_COLLECTOR exclude one another: a rank sends only "
                "files of its own; leave one of them out"
            )
        if self.level not in LEVELS:
            known = ", ".join(LEVELS)
            raise ValueError(
                f"unknown level {self.level!r} (argument level or TRACE_HOOKS_LEVEL); use one of "
                f"{known}"
            )
        if self.run is not None and not _RUN_NAME.fullmatch(self.run):
            raise ValueError(
                f"run name {self.run!r} cannot name a folder; use up to 120 letters, digits "
                "and ._+=@- beginning with a letter or digit"
            )


def starts_by_itself(environ: Mapping[str, str]) -> bool:
    """Whether AUTO starts the hooks of this job's processes."""
    return environ.get(AUTO, "").strip() == "1"


def is_off(environ: Mapping[str, str]) -> bool:
    """Whether TRACE_HOOKS switches everything off."""
    return environ.get("TRACE_HOOKS", "1").strip().lower() in ("0", "off", "false", "no")


def read_settings(
    environ: Mapping[str, str],
    *,
    folder: str | Path | None = None,
    run: str | None = None,
    layout: Any = None,
    level: str | None = None,
    sources: Sequence[str] | None = None,
    statistics: int | None = None,
    allow_content: bool | None = None,
    allow_perturbation: bool | None = None,
) -> Settings:
    """Settings from arguments, where given, else from the environment.

    Raises ValueError naming the value and what would be right.
    """
    if folder is not None and not isinstance(folder, str | os.PathLike):
        raise ValueError(f"folder is {folder!r}; give the path of a folder")
    if run is not None and not isinstance(run, str):
        raise ValueError(f"run is {run!r}; give a name, or leave it out")
    text = environ.get("TRACE_HOOKS_SOURCES", "")
    chosen = [part.strip() for part in text.split(",") if part] if sources is None else sources
    ring_folder = environ.get("TRACE_HOOKS_RING_DIR")
    ships = _is_on(environ, "TRACE_HOOKS_SHIP", None)
    return Settings(
        folder=Path(folder or environ.get("TRACE_HOOKS_FOLDER") or "runs").absolute(),
        run=run or environ.get("TRACE_HOOKS_RUN") or _job_id(environ),
        level=level or environ.get("TRACE_HOOKS_LEVEL") or LEVELS[-1],
        sources=chosen_sources(chosen),
        layout=read_layout(layout if layout is not None else environ.get("TRACE_HOOKS_LAYOUT")),
        ring_folder=Path(ring_folder) if ring_folder else None,
        silent_s=_seconds(environ, "TRACE_HOOKS_SILENT_S", 10.0),
        lost_s=_seconds(environ, "TRACE_HOOKS_LOST_S", 60.0),
        stalled_s=_seconds(environ, "TRACE_HOOKS_STALLED_S", 60.0),
        spans_every=_spans_every(environ),
        statistics_every=_interval(environ, statistics),
        allow_content=_is_on(environ, "TRACE_HOOKS_ALLOW_CONTENT", allow_content),
        watches=_watches(environ),
        allow_perturbation=_is_on(environ, "TRACE_HOOKS_ALLOW_PERTURBATION", allow_perturbation),
        server=read_address(environ),
        ships=ships,
        telemetry=_is_on(environ, "TRACE_HOOKS_TELEMETRY", None, default=True),
        collector=_is_on(environ, "TRACE_HOOKS_COLLECTOR", None, default=not ships),
    )


def _interval(environ: Mapping[str, str], given: int | None) -> int:
    """Steps between two with tensor statistics; raises ValueError."""
    value = environ.get("TRACE_HOOKS_STATISTICS", "").strip() or "0" if given is None else given
    text = str(value)
    if isinstance(value, bool) or not text.isdecimal() or len(text) > 9:
        raise ValueError(
            f"statistics (TRACE_HOOKS_STATISTICS) is {value!r}; give a number of steps, or 0 for "
            "no statistics"
        )
    return int(text)


def _spans_every(environ: Mapping[str, str]) -> int:
    """Steps between two with their spans; raises ValueError."""
    text = environ.get("TRACE_HOOKS_SPANS_EVERY", "").strip() or "1"
    if not text.isdecimal() or len(text) > 9:
        raise ValueError(
            f"TRACE_HOOKS_SPANS_EVERY is {text!r}; give a number of steps, 1 for the spans of "
            "every step, or 0 for sums only"
        )
    return int(text)


def _is_on(
    environ: Mapping[str, str], name: str, given: bool | None, default: bool = False
) -> bool:
    """A switch; raises ValueError for anything but on and off."""
    if given is not None and not isinstance(given, bool):
        raise ValueError(
            f"{name.removeprefix('TRACE_HOOKS_').lower()} is {given!r}; give True or False"
        )
    text = environ.get(name, "").strip().lower()
    if text not in ("", "0", "1", "off", "on", "false", "true", "no", "yes"):
        raise ValueError(f"{name} is {text!r}; give 1 or 0")
    if given is not None:
        return given
    return text in ("1", "on", "true", "yes") if text else default


def _watches(environ: Mapping[str, str]) -> tuple[Watch, ...]:
    """Watches of the file that TRACE_HOOKS_WATCHES names; raises ValueError."""
    name = environ.get("TRACE_HOOKS_WATCHES", "").strip()
    if not name:
        return ()
    try:
        with Path(name).open("rb") as file:
            return tuple(watches_from_text(file.read(MAX_TEXT + 1)))
    except OSError as error:
        raise ValueError(f"TRACE_HOOKS_WATCHES: {name} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"TRACE_HOOKS_WATCHES: {name}: {error}") from None


def _job_id(environ: Mapping[str, str]) -> str | None:
    job_id = next((environ[name] for name in JOB_ID_VARIABLES if environ.get(name)), None)
    if job_id is None:
        return None
    return re.sub(r"[^A-Za-z0-9._+=@-]", "_", job_id).lstrip("._+=@-")[:120] or None


def _seconds(environ: Mapping[str, str], name: str, default: float) -> float:
    text = environ.get(name, "")
    try:
        seconds = float(text or default)
    except ValueError:
        raise ValueError(f"{name} is {text!r}; give a number of seconds") from None
    if not 0 < seconds < 1e6:
        raise ValueError(f"{name} is {text!r}; give a number of seconds above 0")
    return seconds


def chosen_sources(names: Sequence[str]) -> tuple[str, ...]:
    """Sources to install: those named, or all but those with a leading '-'; all if none is named.

    Raises ValueError for an unknown name, and for what is no list of names.
    """
    if isinstance(names, str) or not isinstance(names, Collection):
        raise ValueError(f"sources is {names!r}; give a list of names, such as ['modules']")
    for name in names:
        if not isinstance(name, str) or name.removeprefix("-") not in SOURCES:
            raise ValueError(
                f"unknown source {name!r} (argument sources or TRACE_HOOKS_SOURCES); known: "
                f"{', '.join(SOURCES)}"
            )
    left_out = {name.removeprefix("-") for name in names if name.startswith("-")}
    taken = {name for name in names if not name.startswith("-")} or set(SOURCES)
    return tuple(name for name in SOURCES if name in taken - left_out)


def read_layout(value: Any) -> ParallelLayout | None:
    """Layout from what a user may give: one, a DeviceMesh, sizes, "pp=2,dp=2,tp=2", JSON or None.

    Raises ValueError.
    """
    if value is None or value == "":
        return None
    if isinstance(value, ParallelLayout):
        return value
    if isinstance(value, str):
        return _layout_from_text(value)
    if isinstance(value, Mapping):
        return _layout_from_mapping(value)
    if hasattr(value, "mesh_dim_names"):
        return ParallelLayout.from_device_mesh(value)
    raise ValueError(
        f"a layout cannot be made of {type(value).__name__}; give a ParallelLayout, a DeviceMesh "
        "or the axis sizes, slowest first"
    )


def _layout_from_mapping(value: Mapping[str, Any]) -> ParallelLayout:
    if "axes" in value:
        return ParallelLayout.from_json(value)
    known = (*AXES, *EXPERT_AXES)
    unknown = next((name for name in value if name not in known), None)
    if unknown is not None:
        raise ValueError(f"unknown parallel axis {unknown!r}; known: {', '.join(known)}")
    return ParallelLayout.from_sizes([n for n in value if n not in ("ep", "etp")], **value)


def _layout_from_text(text: str) -> ParallelLayout:
    if text.lstrip().startswith("{"):
        try:
            return _layout_from_mapping(json.loads(text))
        except json.JSONDecodeError as error:
            raise ValueError(f"the layout {text!r} is not valid JSON: {error}") from None
        except RecursionError:
            raise ValueError("the layout is not valid JSON: it is nested too deeply") from None
    sizes: dict[str, int] = {}
    for part in text.split(","):
        name, equals, size = part.partition("=")
        if not equals or not size.strip().isdecimal():
            raise ValueError(f"the layout {text!r} is not a list of sizes such as pp=2,dp=2,tp=2")
        if name.strip() in sizes:
            raise ValueError(f"the layout {text!r} names {name.strip()} twice; name each axis once")
        sizes[name.strip()] = int(size)
    return _layout_from_mapping(sizes)
