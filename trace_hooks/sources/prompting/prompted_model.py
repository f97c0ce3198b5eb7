"""How to run a training script's model on tokens: the arguments of `tracer.prompts`, or defaults.

Shapes: T tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from trace_hooks.layout import ParallelLayout
from trace_hooks.protocol.prompts import MAX_PROMPT, read_ids
from trace_hooks.sources.prompting.prompt_state import device_of

TOP = 20
"""Alternatives shown for each token."""

Encode = Callable[[str], Any]
Decode = Callable[[list[int]], str]
Forward = Callable[[Tensor], Any]


class PromptedModel:
    """The models of this rank, and how to call them. Raises TypeError for anything but modules."""

    def __init__(
        self,
        models: Any,
        encode: Encode | None = None,
        decode: Decode | None = None,
        forward: Forward | None = None,
        longest: int | None = None,
    ) -> None:
        self.models = [models] if isinstance(models, nn.Module) else list(models)
        if not self.models or not all(isinstance(model, nn.Module) for model in self.models):
            raise TypeError("prompts needs an nn.Module, or a list of this rank's stages")
        self._encode = encode or read_ids
        self._decode = decode
        self._forward = forward
        self._longest = longest or _longest(self.models)

    def why_not(self, layout: ParallelLayout | None) -> str | None:
        """Why this rank cannot be prompted; None where it can."""
        stages = layout.size("pp") if layout else 1
        if self._forward is None and (len(self.models) > 1 or stages > 1):
            return (
                "not supported: this rank holds stages of a pipeline; give tracer.prompts a "
                "forward that runs all of them"
            )
        return None

    def encode(self, text: str, more: int) -> list[int]:
        """Ids of a prompt that `more` tokens are to follow; raises ValueError, one sentence."""
        encoded = self._encode(text)
        encoded = encoded.tolist() if hasattr(encoded, "tolist") else list(encoded)
        ids = encoded[0] if len(encoded) == 1 and isinstance(encoded[0], list) else encoded
        if not ids or not all(isinstance(token, int) and token >= 0 for token in ids):
            raise ValueError("encode did not return a list of token ids for this prompt")
        if len(ids) > MAX_PROMPT:
            raise ValueError(f"the prompt has {len(ids)} tokens; at most {MAX_PROMPT} are allowed")
        self.check(ids, more)
        return [int(token) for token in ids]

    def check(self, ids: Sequence[int], more: int) -> None:
        """Raise ValueError for ids that the model cannot read: on a GPU those would end the job."""
        known = next(_sizes(self.models), None)
        if known is not None and max(ids) >= known:
            raise ValueError(f"token {max(ids)} is not among the {known} that the model knows")
        if self._longest is not None and len(ids) + more > self._longest:
            raise ValueError(
                f"{len(ids)} tokens and {more} new ones are more than the {self._longest} that the "
                "model reads; ask for less, or give tracer.prompts longest="
            )

    def text(self, token: int) -> str:
        """Text of a token; its number without a tokenizer."""
        if self._decode is None:
            return str(token)
        try:
            return str(self._decode([token]))
        except Exception:  # noqa: BLE001 - the script's own function; ids beyond its vocabulary
            return str(token)

    def logits_V(self, ids: Sequence[int]) -> Tensor | None:
        """Logits of the token after `ids`, float32 on the CPU; None where this rank has none.

        Raises what the model raises, and ValueError where the output is not logits of a next token.
        """
        ids_1T = torch.tensor([list(ids)], device=device_of(self.models))
        output = self._call(ids_1T)
        output = getattr(output, "logits", output)
        output = output[0] if isinstance(output, tuple) else output
        if output is None:
            return None
        if not isinstance(output, Tensor) or output.dim() < 1:
            raise ValueError("the model returned no logits")
        output = output.full_tensor() if hasattr(output, "full_tensor") else output
        if output.dim() > 1:
            row = len(ids) - 1 if output.shape[-2] >= len(ids) else -1
            output = output.flatten(0, -3)[0][row] if output.dim() > 2 else output[row]
        logits_V = output.detach().float().cpu()
        if not bool(logits_V.isfinite().all()):
            raise ValueError("logits of the model are not finite")
        return logits_V

    def _call(self, ids_1T: Tensor) -> Any:
        if self._forward is not None:
            return self._forward(ids_1T)
        model: Any = self.models[0]
        if isinstance(model, nn.parallel.DistributedDataParallel):
            model = model.module  # calling DDP itself would broadcast buffers
        return model(ids_1T)


def next_token(
    logits_V: Tensor, temperature: float, generator: torch.Generator
) -> tuple[int, list[tuple[int, float]]]:
    """The next token; and the model's probabilities of it and of the most probable ones."""
    probability_V = logits_V.softmax(-1)
    if temperature > 0:
        drawn_from_V = (logits_V / temperature).softmax(-1)
        token = int(torch.multinomial(drawn_from_V, 1, generator=generator))
    else:
        token = int(logits_V.argmax())
    top = probability_V.topk(min(TOP, len(probability_V)))
    pairs = zip(top.indices.tolist(), top.values.tolist(), strict=True)
    return token, [(token, float(probability_V[token])), *pairs]


def _sizes(models: list[nn.Module]) -> Iterator[int]:
    """Sizes of the embeddings, the first being that of the tokens."""
    for model in models:
        for module in model.modules():
            size = getattr(module, "num_embeddings", None)
            if type(size) is int:
                yield size


def _longest(models: list[nn.Module]) -> int | None:
    """Most tokens that the model reads, by its config or its embedding of positions."""
    config = getattr(models[0], "config", None)
    stated = getattr(config, "max_position_embeddings", None)
    if type(stated) is int and stated > 0:
        return stated
    return min(list(_sizes(models))[1:], default=None)
