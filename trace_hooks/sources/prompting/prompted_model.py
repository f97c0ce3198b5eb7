"""How a training script's model goes on with tokens: what its `tracer.prompts` said, and defaults.

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
"""Alternatives shown of each token."""

Encode = Callable[[str], Any]
Decode = Callable[[list[int]], str]
Forward = Callable[[Tensor], Any]


class PromptedModel:
    """The models of this rank, and how to ask them. Raises TypeError for what is no model."""

    def __init__(
        self,
        models: Any,
        encode: Encode | None = None,
        decode: Decode | None = None,
        forward: Forward | None = None,
        longest: int | None = None,
    ) -> None:
        self.models = [models] if isinstance(models, nn.Module) else list(models)
        if not self.models or not all(isinstance(one, nn.Module) for one in self.models):
            raise TypeError("prompts needs an nn.Module, or a list of this rank's stages")
        self._encode = encode or read_ids
        self._decode = decode
        self._forward = forward
        self._longest = longest or _longest(self.models)

    def why_not(self, layout: ParallelLayout | None) -> str | None:
        """Why nothing can be prompted here; None where it can."""
        stages = layout.size("pp") if layout else 1
        if self._forward is None and (len(self.models) > 1 or stages > 1):
            return (
                "not supported: this rank holds stages of a pipeline; give tracer.prompts a "
                "forward that runs all of them"
            )
        return None

    def encode(self, text: str, more: int) -> list[int]:
        """Ids of a prompt that `more` tokens are to follow; raises ValueError, one sentence."""
        found = self._encode(text)
        found = found.tolist() if hasattr(found, "tolist") else list(found)
        ids = found[0] if len(found) == 1 and isinstance(found[0], list) else found
        if not ids or not all(isinstance(one, int) and one >= 0 for one in ids):
            raise ValueError("encode made no list of token ids of this prompt")
        if len(ids) > MAX_PROMPT:
            raise ValueError(f"the prompt has {len(ids)} tokens; {MAX_PROMPT} are possible")
        self.check(ids, more)
        return [int(one) for one in ids]

    def check(self, ids: Sequence[int], more: int) -> None:
        """Raise ValueError for what the model could not read: on a GPU that ends the job."""
        known = next(_sizes(self.models), None)
        if known is not None and max(ids) >= known:
            raise ValueError(f"token {max(ids)} is not among the {known} that the model knows")
        if self._longest is not None and len(ids) + more > self._longest:
            raise ValueError(
                f"{len(ids)} tokens and {more} new ones are more than the {self._longest} that the "
                "model reads; ask for less, or give tracer.prompts longest="
            )

    def text(self, token: int) -> str:
        """Text of a token; its number where nothing decodes it."""
        if self._decode is None:
            return str(token)
        try:
            return str(self._decode([token]))
        except Exception:  # noqa: BLE001 - the script's own function; ids beyond its vocabulary
            return str(token)

    def logits_V(self, ids: Sequence[int]) -> Tensor | None:
        """Logits of the token after `ids`, float32 on the CPU; None where this rank has none.

        Raises what the model raises, ValueError for what are no logits of a next token.
        """
        ids_1T = torch.tensor([list(ids)], device=device_of(self.models))
        found = self._call(ids_1T)
        found = getattr(found, "logits", found)
        found = found[0] if isinstance(found, tuple) else found
        if found is None:
            return None
        if not isinstance(found, Tensor) or found.dim() < 1:
            raise ValueError("the model returned no logits")
        found = found.full_tensor() if hasattr(found, "full_tensor") else found
        if found.dim() > 1:
            at = len(ids) - 1 if found.shape[-2] >= len(ids) else -1
            found = found.flatten(0, -3)[0][at] if found.dim() > 2 else found[at]
        logits_V = found.detach().float().cpu()
        if not bool(logits_V.isfinite().all()):
            raise ValueError("logits of the model are not finite")
        return logits_V

    def _call(self, ids_1T: Tensor) -> Any:
        if self._forward is not None:
            return self._forward(ids_1T)
        model: Any = self.models[0]
        if isinstance(model, nn.parallel.DistributedDataParallel):
            model = model.module  # whose buffers nobody needs to send around
        return model(ids_1T)


def next_token(
    logits_V: Tensor, temperature: float, generator: torch.Generator
) -> tuple[int, list[tuple[int, float]]]:
    """The next token, and it and the most probable ones with the model's probability of each."""
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
    """Tokens the model reads, where it says so; learned positions are another embedding."""
    config = getattr(models[0], "config", None)
    said = getattr(config, "max_position_embeddings", None)
    if type(said) is int and said > 0:
        return said
    return min(list(_sizes(models))[1:], default=None)
