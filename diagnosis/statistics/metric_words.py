"""How sentences write metrics of machines, and their values with units."""

from __future__ import annotations

_UNITS = (
    ("_bytes_total", "B/s"),
    ("_seconds_total", "s/s"),
    ("_total", "/s"),
    ("_bytes", "B"),
    ("_mhz", "MHz"),
    ("_ratio", ""),
    ("_watts", "W"),
    ("_celsius", "C"),
    ("_percent", "%"),
    ("_seconds", "s"),
)
_ACRONYMS = {"gpu", "cpu", "sm", "tcp", "ecc", "crc", "ecn", "oom", "nic", "numa"}
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def metric_words(name: str) -> str:
    """The name in words, without its unit: "GPU SM clock" of gpu_sm_clock_mhz."""
    plain = name.partition(" (")[0]
    for end, _ in _UNITS:
        if plain.endswith(end):
            plain = plain.removesuffix(end)
            break
    words = plain.split("_")
    return " ".join(
        {"nvlink": "NVLink", "pcie": "PCIe"}.get(word, word.upper() if word in _ACRONYMS else word)
        for word in words
    )


def value_text(name: str, value: float) -> str:
    """A value with its unit: counters as a rate, ratios as a percentage."""
    if name.endswith("_ratio"):
        return f"{100 * value:.3g} %"
    unit = next((unit for end, unit in _UNITS if name.endswith(end)), "")
    for least, prefix in _PREFIXES:
        if unit.startswith("B") and abs(value) >= least:
            return f"{value / least:.3g} {prefix}{unit}"
    number = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{number}{'' if unit.startswith('/') else ' '}{unit}".rstrip()
