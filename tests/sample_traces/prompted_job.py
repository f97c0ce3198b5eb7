"""The real job, prompted on every rank after its third step.

python -m tests.sample_traces.prompted_job FOLDER, then the options of train_3d. Reads
FOLDER/request.json, a prompt; writes FOLDER/results.RANK.json: answers, and (what, layer, shard,
first row, number, values, labels) of each frame.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch.distributed as dist

import trace_hooks as th
from sample_traces.jobs import train_3d
from trace_hooks.protocol.frames import Frame
from trace_hooks.tracer import Tracer


def prompted(folder: Path, start: Callable[..., Tracer]) -> Callable[..., Tracer]:
    """trace_hooks.start, and then a prompt as the server would send it."""
    results: list[Any] = []

    def begin(*args: Any, **kwargs: Any) -> Tracer:
        tracer = start(*args, **kwargs)
        live, prompts, stop = tracer.context.live, tracer.prompts, tracer.stop
        live.on_frame = lambda frame: results.append(_plain(frame))

        def registered(*args: Any, **kwargs: Any) -> None:
            prompts(*args, **kwargs)
            tracer.steps.explicit = True  # as after the first step
            request = json.loads((folder / "request.json").read_text())
            for value in (request, {"go": request["id"]}):
                answer = live.commands.answer(
                    {"type": "command", "id": "c", "name": "prompt", "args": value}
                )
                results.append(answer["text"] if answer else None)

        def stopped() -> None:
            stop()
            (folder / f"results.{dist.get_rank()}.json").write_text(json.dumps(results))

        tracer.prompts, tracer.stop = registered, stopped  # type: ignore[method-assign,assignment]
        return tracer

    return begin


def _plain(frame: Frame) -> list[Any]:
    labels = json.loads(frame.labels) if frame.labels else None
    values = frame.values().tolist()
    return [frame.what, frame.layer, frame.shard, frame.row_begin, frame.sample, values, labels]


def main(arguments: Sequence[str]) -> int:
    """Train."""
    th.start = prompted(Path(arguments[0]), th.start)  # type: ignore[assignment]
    return train_3d.main(list(arguments[1:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
