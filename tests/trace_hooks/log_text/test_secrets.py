"""Secrets are masked; what looks like one is not."""

from __future__ import annotations

import pytest

from trace_hooks.log_text.secrets import masked


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("export WANDB_API_KEY=abcdef0123456789abcdef", "abcdef0123456789abcdef"),
        ("using sk-proj-abcdefghijklmnopqrstuvwxyz0123 now", "abcdefghijklmnopqrstuvwxyz"),
        ("git clone https://user:pa55w0rd@host/x", "pa55w0rd"),
        ("token: hf_abcdefghijklmnopqrstuvwxyz", "abcdefghijklmnop"),
        ("GH=ghp_abcdefghijklmnopqrstuvwxyz0123456789", "abcdefghijklmnop"),
        ("Authorization: Bearer abc.def.ghi-1234567890", "abc.def"),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalr"),
        ("AKIAIOSFODNN7EXAMPLE", "IOSFODNN"),
        ("GET https://s3/x?X-Amz-Signature=abcdef123&part=1", "abcdef123"),
        ("{'token': 'abcdefghijklmnop1234'}", "abcdefghijklmnop1234"),
        ("MY_TOKEN=a1b2c3d4e5f6g7h8i9", "a1b2c3d4"),
        ('{"password": "correct horse"}', "correct horse"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmN", "dozjgNryP4J3jVmN"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----", "MIIEow"),
        ("Set-Cookie: session=abcd; Path=/", "abcd"),
    ],
)
def test_a_secret_is_masked(text: str, secret: str) -> None:
    assert secret not in masked(text)
    assert "***" in masked(text)


@pytest.mark.parametrize(
    "text",
    [
        "commit 4a8de33a1b2c on port 29500 rank 3",
        "pad_token=128001 eos_token: <|end_of_text|>",
        "password is not set",
        "tokens=1234567 tokens/s 33, max_new_tokens: 2048",
        "KeyError: 'lm_head.weight'",
        "cache_key=model.layers.12.attn.weights_0123",
        "rendezvous at tcp://10.0.0.12:29500",
        "api_key: None",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert masked(text) == text


def test_masking_takes_linear_time_on_hostile_lines() -> None:
    for piece in ("token=" * 2000, "a" * 20_000 + "key", "://" * 5000, "-" * 20_000 + "BEGIN key"):
        assert isinstance(masked(piece), str)
