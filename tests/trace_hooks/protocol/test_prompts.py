"""What a prompt may be, and how ranks agree on it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from torch import distributed

from trace_hooks.protocol.prompts import MAX_TEXT, Prompt, Word, read_ids, server_request
from trace_hooks.sources.prompting import agreement as prompt_agreement
from trace_hooks.sources.prompting.agreement import Agreement

REQUEST = {"id": "p1", "text": "1 2 3"}


def test_a_prompt_survives_its_json() -> None:
    prompt = Prompt.from_json(
        REQUEST | {"tokens": 3, "temperature": 1, "layers": [2, 0], "step": 7}
    )
    assert server_request(prompt.to_json()) == prompt == Prompt("p1", "1 2 3", 3, 1.0, 0, (2, 0), 7)
    assert server_request({"go": "p1"}) == Word("p1", True)
    assert server_request(Word("p1", False).to_json()) == Word("p1", False)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"tokens": 10**9}, "tokens is 1000000000"),
        ({"tokens": 0}, "from 1 to 64"),
        ({"tokens": True}, "tokens is True"),
        ({"tokens": 3.0}, "tokens is 3.0"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"temperature": float("inf")}, "temperature is inf"),
        ({"temperature": 10**400}, "temperature is 1000"),
        ({"temperature": -1}, "is -1"),
        ({"temperature": "__import__('os')"}, 'temperature is "__import__'),
        ({"layers": "all"}, "layers are 'all'"),
        ({"layers": list(range(17))}, "16 at most"),
        ({"layers": [10**9]}, "layers are"),
        ({"layers": [True]}, "layers are"),
        ({"layers": {"0": 1}}, "layers are"),
        ({"seed": -1}, "seed is -1"),
        ({"id": "../../etc"}, "id is '../../etc'"),
        ({"id": ""}, "id is ''"),
        ({"text": " \n"}, "is empty"),
        ({"text": ["a"]}, "is empty"),
        ({"text": "a" * (MAX_TEXT + 1)}, "20001 characters"),
        ({"step": 10**30}, "step is 1000"),
        ({"code": "import os"}, "has no 'code'"),
    ],
)
def test_hostile_prompts_are_refused_with_a_sentence(more: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match="prompt") as refused:
        server_request(REQUEST | {"step": 1} | more)
    assert words in str(refused.value)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("value", [None, [], "go", {"go": 3}, {"go": "p1", "drop": "p1"}, REQUEST])
def test_what_is_no_message_to_a_rank_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="prompt"):
        server_request(value)


def test_prompts_without_a_tokenizer_are_numbers() -> None:
    assert read_ids("5, 17\n42") == [5, 17, 42]
    for text in ("eval('1')", "-3", "1.5", "9" * 40, "\N{ARABIC-INDIC DIGIT FIVE}"):
        with pytest.raises(ValueError, match="has given no tokenizer"):
            read_ids(text)


def meetings(*proposals: dict[str, Any] | None, world_size: int | None = None) -> list[Any]:
    """What ranks with these proposals hear, in one meeting."""
    store = distributed.HashStore()
    size = world_size or len(proposals)
    with ThreadPoolExecutor(len(proposals)) as pool:
        return list(
            pool.map(
                lambda at: Agreement(store, "p1", at, size).meet(proposals[at]),
                range(len(proposals)),
            )
        )


def test_all_ranks_receive_the_same_proposal() -> None:
    proposals = meetings({"token": 5}, None, {"token": 6})
    assert proposals == [proposals[0]] * 3
    assert proposals[0] in ({"by": 0, "token": 5}, {"by": 2, "token": 6})
    assert (
        meetings({"token": 5}, {"stop": "rank 1 failed"})
        == [{"by": 1, "stop": "rank 1 failed"}] * 2
    )


def test_where_one_does_not_come_or_nobody_knows_all_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_agreement, "MEET_S", 0.2)
    for answers in (meetings({"token": 5}, {"token": 5}, world_size=3), meetings(None, None)):
        assert answers == [answers[0]] * 2
        assert "stop" in answers[0]


def test_meetings_leave_little_in_the_store() -> None:
    store = distributed.HashStore()
    agreement = Agreement(store, "p1", 0, 2)
    for number in range(4):
        store.add(f"trace_hooks/prompt/p1/{number}/came", 1)  # of the other rank
        assert agreement.meet({"token": number}) == {"by": 0, "token": number}
    assert store.num_keys() <= 6
