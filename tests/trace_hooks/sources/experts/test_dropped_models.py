"""Models with experts that the job drops while the hooks go on."""

from __future__ import annotations

import gc
import weakref

from tests.trace_hooks.sources.experts.tiny_moe import TinyMoE, register, trained
from tests.trace_hooks.tiny_models import seeded, tracing, train


def test_models_that_the_job_drops_are_freed_with_their_routers() -> None:
    """At once, not when Python looks for garbage: the next model needs the memory."""
    train(TinyMoE(), 1)  # torch imports more at the first step
    with tracing("modules", "experts") as traced:
        gc.collect()
        gc.disable()
        try:
            dropped = []
            for fold in range(3):
                model = seeded(TinyMoE)
                traced.watch(model)
                register(traced, model, bias="bias")
                trained(traced, model, 2)
                for block in model.layers:
                    block.moe.router.seen.clear()
                dropped.append(weakref.ref(model.layers[0].moe.router))
                del model, block
                assert dropped[fold]() is None
        finally:
            gc.enable()
        rows = traced.rows("expert_load")
    assert [row["name"] for row in rows] == [f"layers.{n}.moe.router" for n in (0, 1)] * 6
