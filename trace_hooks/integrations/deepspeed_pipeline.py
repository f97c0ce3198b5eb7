"""What a stage of DeepSpeed's pipeline engine does, instruction by instruction."""

from __future__ import annotations

from collections import Counter
from typing import Any

from deepspeed.runtime.pipe import schedule

from trace_hooks.integrations.framework_source import ActionOf, named
from trace_hooks.recording.recorder import Recorder
from trace_hooks.sources.training.pipeline import Action, recorded

SPANS = {
    schedule.ReduceTiedGrads: ("reduce tied gradients", "backward"),
    schedule.ReduceGrads: ("reduce gradients", "backward"),
    schedule.LoadMicroBatch: ("load micro-batch", "data_fetch"),
    schedule.SendActivation: ("send activation", "host"),
    schedule.RecvActivation: ("receive activation", "host"),
    schedule.SendGrad: ("send gradient", "host"),
    schedule.RecvGrad: ("receive gradient", "host"),
}
"""Instructions of a pipeline beside forward, backward and step: name and kind of their spans."""


class PipelineActions:
    """Numbers the passes of a step; `step` is what an optimizer step is recorded as."""

    def __init__(self, recorder: Recorder, step: ActionOf) -> None:
        self._recorder = recorder
        self._passes = Counter[str]()  # of this step, by name
        self._actions: dict[type, ActionOf] = {kind: named(*span) for kind, span in SPANS.items()}
        self._actions[schedule.ForwardPass] = self._pass("F", "forward")
        self._actions[schedule.BackwardPass] = self._pass("B", "backward")
        self._actions[schedule.OptimizerStep] = self._last(step)

    def recorded(self, instructions: dict[type, Any]) -> dict[type, Any]:
        """The functions of an engine's instructions, recorded."""
        return {
            instruction: recorded(self._recorder, self._actions[instruction], function, "deepspeed")
            if instruction in self._actions
            else function
            for instruction, function in instructions.items()
        }

    def _pass(self, name: str, kind: str) -> ActionOf:
        """Passes of one kind, whose micro-batches come in order in all of DeepSpeed's schedules."""

        def action(engine: Any, *args: Any, **kwargs: Any) -> Action | None:
            if not engine.module.training:
                return None
            number = self._passes[name]
            self._passes[name] += 1
            return Action(name, kind, number, engine.stage_id)

        return action

    def _last(self, step: ActionOf) -> ActionOf:
        def action(*args: Any, **kwargs: Any) -> Action | None:
            self._passes.clear()
            return step()

        return action
