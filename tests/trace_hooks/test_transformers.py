"""Models of transformers as their users have them: built from a config, watched in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import trace_hooks as th
from trace_hooks.protocol.frames import Frame

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.torch

TOKENS = torch.arange(24).reshape(2, 12) % 31


def gpt2(**options: Any) -> Any:
    config = transformers.GPT2Config(
        n_layer=2,
        n_head=4,
        n_embd=32,
        vocab_size=31,
        n_positions=16,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        **options,
    )
    torch.manual_seed(3)
    return transformers.GPT2LMHeadModel(config)


def llama(**options: Any) -> Any:
    config = transformers.LlamaConfig(
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        hidden_size=32,
        intermediate_size=48,
        vocab_size=31,
        max_position_embeddings=16,
        **options,
    )
    torch.manual_seed(3)
    return transformers.LlamaForCausalLM(config)


def recorded(folder: Path) -> list[Frame]:
    paths = sorted(folder.glob("*/segments/frames-*.parquet"))
    rows = [row for path in paths for row in pq.read_table(path).to_pylist()]
    return [Frame(**row | {"shape": tuple(row["shape"])}) for row in rows]


@pytest.mark.parametrize("make", [gpt2, llama], ids=["GPT-2", "Llama"])
def test_attention_and_residual_are_those_of_the_eager_model(
    make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACE_HOOKS_RING_DIR", str(tmp_path))
    model = make(attn_implementation="sdpa").train()
    tracer = th.start(
        tmp_path / "runs", model=model, allow_content=True, sources=["modules", "inspection"]
    )
    acks = tracer.inspect({"what": "attention"}, {"what": "residual"})
    assert [ack.ok for ack in acks] == [True, True]
    mask = torch.ones_like(TOKENS)
    mask[1, :3] = 0  # padded on the left
    with tracer.step(0):
        model(TOKENS, attention_mask=mask, labels=TOKENS).loss.backward()
    tracer.stop()

    eager = make(attn_implementation="eager").eval()
    with torch.no_grad():
        exact = eager(
            TOKENS, attention_mask=mask, output_attentions=True, output_hidden_states=True
        )
    found = recorded(tmp_path / "runs")
    attention = {(one.layer, one.head): one for one in found if one.what == "attention"}
    assert set(attention) == {(layer, head) for layer in range(2) for head in range(4)}
    for (layer, head), one in attention.items():
        np.testing.assert_allclose(
            one.values(), exact.attentions[layer][0, head], rtol=2e-3, atol=1e-5
        )
    residual = {one.layer: one for one in found if one.what == "residual"}
    assert set(residual) == {0, 1}
    np.testing.assert_allclose(
        residual[0].values(), exact.hidden_states[1][0], rtol=2e-3, atol=1e-5
    )


@pytest.mark.parametrize("make", [gpt2, llama], ids=["GPT-2", "Llama"])
def test_a_prompt_goes_on_as_generate_does(
    make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACE_HOOKS_RING_DIR", str(tmp_path))
    model = make().train()
    tracer = th.start(
        tmp_path / "runs", model=model, allow_content=True, sources=["modules", "prompting"]
    )
    frames: list[Frame] = []
    tracer.context.live.on_frame = frames.append
    tracer.prompts(
        model,
        encode=lambda text: [ord(one) - 97 for one in text],
        decode=lambda ids: chr(ids[0] + 97),
    )

    def sent(**value: Any) -> Any:
        command = {"type": "command", "id": "c", "name": "prompt", "args": value}
        return tracer.context.live.commands.answer(command)

    for step, text in enumerate(["", "hello", "", "hello world", ""]):
        with tracer.step(step):
            if text:
                sent(
                    id=f"p{step}", text=text.replace(" ", "a"), tokens=6, layers=[1], step=step + 1
                )
                sent(go=f"p{step}")
    tracer.stop()
    tokens = [json.loads(f.labels or "")[0] for f in frames if f.what == "prompt_token"]
    begin = torch.tensor([[7, 4, 11, 11, 14]])
    exact = model.eval().generate(
        begin, max_new_tokens=6, do_sample=False, pad_token_id=0, eos_token_id=None
    )
    assert [one[0] for one in tokens[1:7]] == exact[0, 5:].tolist()
    assert [one[1] for one in tokens[1:7]] == [chr(one + 97) for one in exact[0, 5:].tolist()]
    assert {f.shape[0] for f in frames if f.what == "prompt_attention"} == {4}
    assert tokens[-1].startswith("11 tokens and 6 new ones are more than the 16")
