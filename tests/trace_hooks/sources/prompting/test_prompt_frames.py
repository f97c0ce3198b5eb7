"""Frames of a running prompt go to the dashboard, and nowhere else."""

from __future__ import annotations

import json

from tests.trace_hooks.tiny_models import ListedSteps
from trace_hooks.protocol.frames import Frame
from trace_hooks.protocol.prompts import Prompt
from trace_hooks.recording.recorder import Recorder
from trace_hooks.sources.context import SourceContext
from trace_hooks.sources.prompting.prompt_frames import PROMPT_TOKENS, THE_END, PromptFrames


def prompt_frames() -> tuple[PromptFrames, SourceContext, list[Frame]]:
    recorder = Recorder()
    recorder.rank_state.step = 4
    context = SourceContext(recorder, ListedSteps(recorder))
    sent: list[Frame] = []
    context.live.on_frame = sent.append
    return (
        PromptFrames(Prompt("p1", "abc", layers=(2,)), context, lambda n: f"<{n}>"),
        context,
        sent,
    )


def test_the_prompt_its_tokens_and_its_end() -> None:
    frames, _, sent = prompt_frames()
    frames.begin([7, 8])
    frames.token(0, 2, [(9, 0.5), (3, 0.25)])
    frames.end(1, "it took too long", 2_000_000, speaks=False)
    frames.end(1, "it took too long", 2_000_000, speaks=True)
    assert [one.sample for one in sent] == [PROMPT_TOKENS, 0, THE_END]
    assert {(one.watch, one.step, one.what) for one in sent} == {("prompt.p1", 4, "prompt_token")}
    assert json.loads(sent[1].labels or "") == [[9, "<9>"], [3, "<3>"]]
    assert sent[1].row_begin == 2
    assert sent[2].values().tolist() == [1.0, 2.0]
    assert json.loads(sent[2].labels or "") == ["it took too long"]


def test_nothing_is_recorded_and_without_a_server_nothing_is_sent() -> None:
    frames, context, sent = prompt_frames()
    context.live.on_frame = None
    frames.begin([7])
    assert sent == []
    assert context.recorder.rows == []
