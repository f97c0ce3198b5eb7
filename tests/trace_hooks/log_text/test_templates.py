"""Lines that differ in what varies have one template."""

from __future__ import annotations

import pytest

from trace_hooks.log_text.templates import template_of


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("step 12 loss 3.45e-2 lr=0.001", "step 7000 loss -0.2 lr=3"),
        ("node07: gpu0 of 10.0.0.12:29500", "node12: gpu7 of 10.0.0.1:1"),
        ("closed by 10.0.0.12<41200>", "closed by 10.0.0.1<3>"),
        ("Xid (PCI:0000:cb:00): 31, Ch 0000000b", "Xid (PCI:0000:0a:00): 31, Ch 00000010"),
        ("mlx5_core 0000:0c:00.0: Link DOWN", "mlx5_core 0000:af:00.1: Link DOWN"),
        (" 5%|#    | 5/100 [00:01<00:19]", " 40%|████▌     | 40/100 [00:11<01:09]"),
        ("2026-11-24 08:12:33,123 INFO epoch 3", "2027-01-01 23:00:00,000 INFO epoch 4"),
        ("read /data/shard_001.bin at 0x7ffc", "read /mnt/other/x.bin at 0xdead"),
        (
            'Traceback (most recent call last):\n  File "a.py", line 3\nValueError: bad batch 7',
            'Traceback (most recent call last):\n  File "b.py", line 9\nValueError: bad batch 8',
        ),
    ],
)
def test_equal_but_for_what_varies(one: str, other: str) -> None:
    assert template_of(one) == template_of(other)


def test_words_tell_lines_apart() -> None:
    assert template_of("rank 3 sends 4 bytes") != template_of("rank 3 receives 4 bytes")
    assert template_of("step 12 loss 3.5") == "step <n> loss <n>"
