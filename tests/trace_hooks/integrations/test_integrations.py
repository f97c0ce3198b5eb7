"""The callbacks of frameworks are imported when a script asks for them, and not before."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import trace_hooks as th
from tests.folders import REPO
from tests.trace_hooks.tracers import rows, start
from trace_hooks import integrations


def test_importing_the_hooks_imports_no_framework_and_no_callback() -> None:
    code = (
        "import sys, trace_hooks\n"
        "print([n for n in sys.modules if n.split('.')[0] in ('torch', 'transformers', 'lightning')"
        " or n.startswith('trace_hooks.integrations')])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_missing_framework_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)  # as if it were not installed
    monkeypatch.delitem(sys.modules, "trace_hooks.integrations.hf", raising=False)
    with pytest.raises(
        ImportError, match=r"^trace_hooks\.hf needs transformers \(.*\); install it"
    ):
        th.hf  # noqa: B018


def test_another_name_is_an_attribute_error() -> None:
    assert not hasattr(th, "jax")
    assert "jax" not in integrations.FRAMEWORKS


@pytest.mark.usefixtures("plain_environment")
def test_a_callback_starts_one_tracer_and_a_copy_in_another_process_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[dict[str, Any]] = []
    monkeypatch.setattr(th, "start", lambda **chosen: started.append(chosen) or object())
    own = integrations.OwnTracer({"folder": "x"})
    assert own() is own()
    assert started == [{"folder": "x"}]
    copied = copy.copy(own)  # by the same state that pickle keeps
    assert copied() is not own()
    monkeypatch.setattr(integrations.os, "getpid", lambda: -1)  # as in a forked child
    own()
    assert started == [{"folder": "x"}] * 3


@pytest.mark.usefixtures("plain_environment")
def test_switched_off_hooks_take_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACE_HOOKS", "0")
    tracer = integrations.OwnTracer({})()
    tracer.renumber(3)
    tracer.log(loss=1.0)
    tracer.batch(lengths=[3])
    tracer.standby(lag_samples=1)
    tracer.steps.hold()
    tracer.mark("note", "nothing")
    with tracer.span("validation", kind="evaluation"):
        pass


@pytest.mark.usefixtures("plain_environment")
def test_a_step_that_waits_for_another_optimizer_keeps_its_number(tmp_path: Path) -> None:
    model, other = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, other)]
    other(torch.ones(1, 2)).sum().backward()  # it could step, and never does
    tracer = start(tmp_path, sources=["modules", "optimizer"])
    tracer.watch(model)
    tracer.renumber(1)
    for number in range(1, 5):
        model(torch.ones(1, 2)).sum().backward()
        optimizers[0].step()
        integrations.number_step(tracer, number)
        tracer.log(loss=float(number))
    tracer.stop()
    steps = sorted((row["step"], row["loss"]) for row in rows(tmp_path, "steps"))
    assert steps == [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0)]
