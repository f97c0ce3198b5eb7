"""Mixture-of-experts models of transformers as their users have them: no line about routers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import trace_hooks as th
from tests.trace_hooks.tracers import rows

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.torch

LAYERS, EXPERTS, TOP_K = 2, 4, 2
SIZES = {
    "vocab_size": 31,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_experts_per_tok": TOP_K,
}
MODELS = {
    "mixtral": {"num_local_experts": EXPERTS},
    "qwen3_moe": {"num_experts": EXPERTS, "moe_intermediate_size": 32, "head_dim": 8},
}


def model_of(kind: str) -> Any:
    torch.manual_seed(3)
    config = transformers.AutoConfig.for_model(kind, **SIZES, **MODELS[kind])
    return transformers.AutoModelForCausalLM.from_config(config).train()


def choices_in(output: Any) -> torch.Tensor:
    """What a router of transformers 5 returns last; 4 returns logits."""
    if isinstance(output, torch.Tensor):
        return output.topk(TOP_K, -1).indices
    return output[-1]


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.usefixtures("plain_environment")
def test_loads_equal_a_count_by_hand(kind: str, tmp_path: Path) -> None:
    model = model_of(kind)
    by_hand: dict[tuple[int, int], list[int]] = {}
    step = 0

    def count(layer: int, output: Any) -> None:
        load = by_hand.setdefault((step, layer), [0] * EXPERTS)
        for expert in choices_in(output).flatten().tolist():
            load[expert] += 1

    for layer, block in enumerate(model.model.layers):
        gate = next(m for n, m in block.named_modules() if n.endswith(".gate"))
        gate.register_forward_hook(lambda _m, _a, output, layer=layer: count(layer, output))
    tracer = th.start(tmp_path, model=model, sources=["modules", "experts"])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        with tracer.step(step):
            for _ in range(2):
                ids = torch.randint(0, 31, (2, 12))
                model(input_ids=ids, labels=ids).loss.backward()
            optimizer.step()
    tracer.stop()
    found = rows(tmp_path, "expert_load")
    assert {(row["step"], row["layer"]): row["tokens"] for row in found} == by_hand
    assert len(by_hand) == 3 * LAYERS
    for row in found:
        assert (row["top_k"], row["batch_tokens"], row["dropped"]) == (TOP_K, 2 * 2 * 12, 0)
        assert (row["first_expert"], row["local_experts"]) == (0, EXPERTS)
