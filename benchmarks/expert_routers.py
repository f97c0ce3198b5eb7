"""Loads that the source `experts` records of frameworks' own routers, against a count by hand.

    python benchmarks/expert_routers.py

Prints one line a framework, with its version: whether the loads are equal, or why it cannot run
here. Each runs where its package is installed; none is a dependency. Every router trains for three
steps of two micro-batches; the count by hand goes through the choices one at a time. Without CUDA,
Megatron's linear gate, which needs it, is replaced by a plain one; the rest is Megatron's own.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import trace_hooks as th
from trace_hooks.schema.reading import read_rows

STEPS, MICROBATCHES, LAYERS = 3, 2, 2
NUM_EXPERTS, TOP_K, TOKENS = 8, 2, 32

Loads = dict[tuple[int, int], list[int]]
"""Tokens by expert, by (step, layer)."""


class ByHand:
    """Counts the choices that `read` finds in what each of some modules returns."""

    def __init__(self, modules: list[nn.Module], read: Callable[[Any], Tensor]) -> None:
        self.loads: Loads = {}
        self.dropped: dict[tuple[int, int], int] = {}
        self.step = 0
        for layer, module in enumerate(modules):
            module.register_forward_hook(
                lambda _module, _args, output, layer=layer: self._add(layer, read(output))
            )

    def _add(self, layer: int, chosen: Tensor) -> None:
        load = self.loads.setdefault((self.step, layer), [0] * NUM_EXPERTS)
        if chosen.dtype == torch.bool:
            pairs = [
                (t, e) for t, row in enumerate(chosen.tolist()) for e in range(len(row)) if row[e]
            ]
            choices = [expert for _, expert in pairs]
        else:
            choices = chosen.flatten().tolist()
        for expert in choices:
            load[expert] += 1
        lost = chosen.shape[0] * TOP_K - len(choices) if chosen.dtype == torch.bool else 0
        self.dropped[self.step, layer] = self.dropped.get((self.step, layer), 0) + lost


def train(tracer: th.Tracer, model: nn.Module, forward: Callable[[], Tensor], hand: ByHand) -> None:
    """STEPS steps of MICROBATCHES."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        hand.step = step
        with tracer.step(step):
            for _ in range(MICROBATCHES):
                forward().backward()
            optimizer.step()
            optimizer.zero_grad()


def compared(model: nn.Module, forward: Callable[[], Tensor], hand: ByHand) -> str:
    """Train a model that is recorded; "yes", or what differs."""
    with tempfile.TemporaryDirectory() as folder:
        tracer = th.start(folder, model=model, sources=["modules", "experts"])
        try:
            train(tracer, model, forward, hand)
        finally:
            tracer.stop()
        runs = Path(folder).iterdir()
        rows = [row for run in runs for row in read_rows(run, "expert_load").to_pylist()]
    recorded = {(row["step"], row["layer"]): row["tokens"] for row in rows}
    dropped = {(row["step"], row["layer"]): row["dropped"] for row in rows}
    if len(hand.loads) != STEPS * LAYERS:
        return f"no: the count by hand has {len(hand.loads)} rows"
    if recorded != hand.loads or dropped != hand.dropped:
        return f"no: recorded {recorded} {dropped}, by hand {hand.loads} {hand.dropped}"
    lost = sum(dropped.values())
    return f"yes, {len(rows)} rows" + (f", {lost} choices dropped" if lost else "")


def transformers(model_type: str, **options: Any) -> str:
    """A tiny random causal language model of Hugging Face."""
    from transformers import AutoConfig, AutoModelForCausalLM

    sizes = {
        "vocab_size": 64,
        "hidden_size": 32,
        "intermediate_size": 32,
        "moe_intermediate_size": 32,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "num_experts_per_tok": TOP_K,
    }
    config = AutoConfig.for_model(model_type, **(sizes | options))
    model = AutoModelForCausalLM.from_config(config).train()
    gates = [m for n, m in model.named_modules() if n.endswith((".gate", ".router"))]

    def read(output: Any) -> Tensor:
        if isinstance(output, Tensor):  # transformers 4: logits
            return output.softmax(-1).topk(TOP_K, -1).indices
        return next(v for v in reversed(output) if not v.is_floating_point())

    def forward() -> Tensor:
        ids = torch.randint(0, 64, (2, TOKENS // 2))
        loss: Tensor = model(input_ids=ids, labels=ids).loss
        return loss

    return compared(model, forward, ByHand(gates, read))


class Stack(nn.Module):
    """Layers that a framework's own model would have in `layers`."""

    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor) -> Tensor:
        """Each after the other."""
        for layer in self.layers:
            output = layer(x)
            x = x + (output[0] if isinstance(output, tuple) else output)
        return x


def torchtitan() -> str:
    """Its MoE, as a block of a model has it."""
    from torchtitan.models.common import moe

    model = Stack([_titan_block(moe) for _ in range(LAYERS)])
    routers = [layer.moe.router for layer in model.layers]

    def forward() -> Tensor:
        return model(torch.randn(2, TOKENS // 2, 32)).square().mean()

    return compared(model, forward, ByHand(routers, lambda output: output[1]))


def _titan_block(moe: Any) -> nn.Module:
    from torchtitan.models.common.linear import Linear
    from torchtitan.models.common.token_dispatcher import LocalTokenDispatcher

    config = moe.MoE.Config(
        num_experts=NUM_EXPERTS,
        routed_experts=moe.RoutedExperts.Config(
            inner_experts=moe.GroupedExperts.Config(dim=32, hidden_dim=32, num_experts=NUM_EXPERTS),
            token_dispatcher=LocalTokenDispatcher.Config(num_experts=NUM_EXPERTS, top_k=TOP_K),
        ),
        router=moe.TokenChoiceTopKRouter.Config(
            num_experts=NUM_EXPERTS,
            gate=Linear.Config(in_features=32, out_features=NUM_EXPERTS),
            top_k=TOP_K,
        ),
    )
    block = nn.Module()
    block.moe = config.build()
    for parameter in block.parameters():
        nn.init.normal_(parameter, std=0.1)
    block.forward = lambda x: block.moe(x)
    return block


@contextmanager
def one_rank() -> Iterator[None]:
    """A process group of this process alone, as Megatron needs it."""
    from megatron.core import parallel_state

    with tempfile.TemporaryDirectory() as folder:
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{folder}/store", rank=0, world_size=1
        )
        try:
            parallel_state.initialize_model_parallel()
            yield
        finally:
            parallel_state.destroy_model_parallel()
            torch.distributed.destroy_process_group()


def megatron(capacity: float | None = None) -> str:
    """Megatron-core's MoELayer; with a capacity factor, full experts drop tokens."""
    from megatron.core.models.gpt.moe_module_specs import get_moe_module_spec
    from megatron.core.transformer.moe.moe_layer import MoELayer
    from megatron.core.transformer.transformer_config import TransformerConfig

    config = TransformerConfig(
        num_layers=LAYERS,
        hidden_size=32,
        num_attention_heads=4,
        num_moe_experts=NUM_EXPERTS,
        moe_router_topk=TOP_K,
        moe_router_load_balancing_type="none",
        moe_expert_capacity_factor=capacity,
        moe_token_dispatcher_type="allgather",
        ffn_hidden_size=32,
        add_bias_linear=False,
        use_cpu_initialization=True,
        params_dtype=torch.float32,
    )
    spec = get_moe_module_spec(use_te=False, num_experts=NUM_EXPERTS, moe_grouped_gemm=False)
    with one_rank():
        blocks = [MoELayer(config, spec.submodules, layer_number=n + 1) for n in range(LAYERS)]
        model = Stack(blocks)
        if not torch.cuda.is_available():
            for block in blocks:
                _gate_on_the_cpu(block.router)

        def forward() -> Tensor:
            loss: Tensor = model(torch.randn(TOKENS, 1, 32)).square().mean()
            return loss

        routers = [block.router for block in blocks]
        return compared(model, forward, ByHand(routers, lambda output: output[1]))


def _gate_on_the_cpu(router: Any) -> None:
    """Megatron's gate moves weights to CUDA; what follows it in the router does not."""
    router.gating = lambda x: nn.functional.linear(x, router.weight)


FRAMEWORKS: dict[str, tuple[str, Callable[[], str]]] = {
    "Mixtral": (
        "transformers",
        lambda: transformers("mixtral", num_local_experts=NUM_EXPERTS),
    ),
    "Qwen3-MoE": (
        "transformers",
        lambda: transformers("qwen3_moe", num_experts=NUM_EXPERTS),
    ),
    "DeepSeek-V3": (
        "transformers",
        lambda: transformers(
            "deepseek_v3",
            n_routed_experts=NUM_EXPERTS,
            n_group=2,
            topk_group=2,
            first_k_dense_replace=0,
            qk_rope_head_dim=8,
            qk_nope_head_dim=8,
            v_head_dim=8,
            q_lora_rank=16,
            kv_lora_rank=16,
            num_key_value_heads=4,
        ),
    ),
    "MoE of torchtitan": ("torchtitan", torchtitan),
    "MoELayer of Megatron": ("megatron-core", megatron),
    "MoELayer of Megatron, capacity 1": ("megatron-core", lambda: megatron(1.0)),
}
"""name: (distribution, what to run)"""


def main() -> int:
    """Print what each framework gave; 1 where a load differs."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    differs = False
    for name, (distribution, run) in FRAMEWORKS.items():
        torch.manual_seed(1)
        try:
            result = run()
            differs |= result.startswith("no")
            result = f"loads equal to a hand count: {result}"
        except Exception as error:  # noqa: BLE001 - whatever a framework lacks here is the result
            result = f"cannot run: {type(error).__name__}: {error}".split("\n")[0]
        print(f"{name}, {_version(distribution)}: {result}", flush=True)
    return int(differs)


def _version(distribution: str) -> str:
    try:
        return f"{distribution} {version(distribution)}"
    except PackageNotFoundError:
        return f"{distribution} not installed"


if __name__ == "__main__":
    sys.exit(main())
