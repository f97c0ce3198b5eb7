"""How a script's model is called with tokens."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.trace_hooks.tiny_models import VOCABULARY, TinyGPT
from trace_hooks.layout import ParallelLayout
from trace_hooks.sources.prompting.prompted_model import PromptedModel, next_token


@pytest.mark.parametrize(
    "encode",
    [None, lambda text: [1, 2], lambda text: [[1, 2]], lambda text: torch.tensor([[1, 2]])],
)
def test_ids_of_a_text(encode: Any) -> None:
    assert PromptedModel(TinyGPT(), encode=encode).encode("1 2", more=1) == [1, 2]


@pytest.mark.parametrize(
    ("arguments", "text", "words"),
    [
        ({}, "hello", "has given no tokenizer"),
        ({}, f"{VOCABULARY}", f"token {VOCABULARY} is not among the {VOCABULARY}"),
        ({"longest": 3}, "1 2 3", "more than the 3 that the model reads"),
        ({"encode": lambda text: []}, "a", "encode did not return a list of token ids"),
        ({"encode": lambda text: [1] * 600}, "a", "600 tokens; at most 512 are allowed"),
    ],
)
def test_what_the_model_cannot_read_is_refused(
    arguments: dict[str, Any], text: str, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        PromptedModel(TinyGPT(), **arguments).encode(text, more=1)


def test_logits_of_the_next_token_in_every_form() -> None:
    model = TinyGPT()
    expected = model(torch.tensor([[1, 2, 3]]))[0, -1]
    for forward in (
        None,
        lambda ids: SimpleNamespace(logits=model(ids)),
        lambda ids: (model(ids), "cache"),
        lambda ids: model(ids)[:, -1:],
        lambda ids: model(ids)[0],
    ):
        logits = PromptedModel(model, forward=forward).logits_V([1, 2, 3])
        assert logits is not None
        assert torch.equal(logits, expected.detach())
    assert PromptedModel(model, forward=lambda ids: None).logits_V([1]) is None


@pytest.mark.parametrize(
    ("output", "words"), [("text", "no logits"), (torch.full((1, 1, 3), torch.inf), "not finite")]
)
def test_other_outputs_are_refused(output: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        PromptedModel(TinyGPT(), forward=lambda ids: output).logits_V([1])


def test_stages_of_a_pipeline_need_a_forward() -> None:
    pipelined = ParallelLayout((("pp", 2),))
    assert "give tracer.prompts a forward" in str(PromptedModel(TinyGPT()).why_not(pipelined))
    assert PromptedModel(TinyGPT(), forward=lambda ids: None).why_not(pipelined) is None
    assert PromptedModel(TinyGPT()).why_not(None) is None


def test_the_next_token_is_the_most_probable_or_drawn() -> None:
    logits = torch.tensor([0.0, 3.0, 1.0])
    token, chances = next_token(logits, 0.0, torch.Generator())
    assert token == 1
    assert [one for one, _ in chances] == [1, 1, 2, 0]
    drawn = {next_token(logits, 5.0, torch.Generator().manual_seed(n))[0] for n in range(50)}
    assert drawn == {0, 1, 2}


def test_only_modules_are_models() -> None:
    with pytest.raises(TypeError, match=r"prompts needs an nn\.Module"):
        PromptedModel(["text"])
