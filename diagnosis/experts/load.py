"""How evenly the tokens of a step are spread over experts, and over the ranks that hold them.

The experts of a layer are divided among the ranks of an EP group: EP rank 0 has the first ones, and
so on. Each EP group has a copy of them all. Suffixes of shapes: S steps, E experts of a layer,
P EP ranks.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
RouterKey = tuple[int, str]
"""Layer, and the router's name."""


@dataclass(frozen=True)
class LayerLoad:
    """What the router of one layer chose, step by step, all ranks together.

    Tokens are those that were not left out because an expert was full. `dropped_S`: how many
    choices were; NaN unknown. Layers have `num_routers` routers, mostly 1: this is number `router`
    of them, by name.
    """

    layer: int  # -1: the router has a name only
    name: str
    top_k: int  # experts for each token; at least 1
    step_S: Ints
    tokens_SE: Floats
    dropped_S: Floats
    router: int = 0
    num_routers: int = 1

    @property
    def key(self) -> RouterKey:
        """Which router it is."""
        return self.layer, self.name

    @property
    def where(self) -> str:
        """ "layer 3", or with the router's name where the layer has several, or no number."""
        if self.layer < 0:
            return self.name
        return f"layer {self.layer}" + (f" ({self.name})" if self.num_routers > 1 else "")

    @property
    def experts(self) -> int:
        """E: how many experts the layer has."""
        return int(self.tokens_SE.shape[1])

    @property
    def choices_S(self) -> Floats:
        """Tokens x experts for each, of a step."""
        return total(self.tokens_SE)

    @property
    def dropped_share(self) -> float:
        """Part of the choices that were left out because an expert was full, in the median step;
        0 where that is unknown.
        """
        wanted_S = self.choices_S + self.dropped_S
        known_S = wanted_S > 0
        return (
            float(np.median(self.dropped_S[known_S] / wanted_S[known_S])) if known_S.any() else 0.0
        )

    @property
    def greatest_ratio(self) -> float:
        """Greatest load / mean that is possible: every token goes to the same expert."""
        return self.experts / self.top_k


def layers_of(table: pa.Table) -> list[LayerLoad]:
    """The loads in an answer of the question expert_load, one for each router, in order of layers
    and names.

    Steps in which a layer has another number of experts than in its newest step are left out.
    """
    rows_of: dict[RouterKey, list[int]] = {}
    keys = zip(table["layer"].to_pylist(), table["name"].to_pylist(), strict=True)
    for row, key in enumerate(keys):
        rows_of.setdefault(key, []).append(row)
    step_N = table["step"].to_numpy().astype(np.int64)
    tokens = table["tokens"].combine_chunks()
    num_N = tokens.value_lengths().to_numpy(zero_copy_only=False)
    dropped_N = table["dropped"].to_numpy().astype(np.float64)
    num_routers = Counter(layer for layer, _ in rows_of)
    numbers = defaultdict[int, Iterator[int]](count)
    found = []
    for layer, name in sorted(rows_of):
        rows, router = np.array(rows_of[layer, name]), next(numbers[layer])
        rows = rows[np.argsort(step_N[rows], kind="stable")]
        rows = rows[num_N[rows] == num_N[rows[-1]]]
        experts = int(num_N[rows[-1]])
        if experts < 1:
            continue
        values = tokens.take(pa.array(rows)).flatten().to_numpy(zero_copy_only=False)
        last = table.slice(int(rows[-1]), 1).select(["top_k", "batch_tokens"]).to_pylist()[0]
        tokens_SE = values.astype(np.float64).reshape(rows.size, experts)
        top_k = _top_k(last, float(tokens_SE[-1].sum()), experts)
        dropped_S = np.where(dropped_N[rows] < 0, np.nan, dropped_N[rows])
        of_layer = router, num_routers[layer]
        found.append(LayerLoad(layer, name, top_k, step_N[rows], tokens_SE, dropped_S, *of_layer))
    return found


def _top_k(row: dict[str, Any], choices: float, experts: int) -> int:
    """As recorded, else by how many choices were made for each token."""
    top_k = int(row["top_k"])
    if top_k < 1 and row["batch_tokens"] > 0:
        top_k = round(choices / row["batch_tokens"])
    return min(max(top_k, 1), experts)


def total(tokens_SE: Floats) -> Floats:
    """Sum over experts, of each step: (S,)."""
    summed: Floats = tokens_SE.sum(axis=1)
    return summed


def ratio(tokens_SE: Floats) -> Floats:
    """Load / mean load of the step: (S, E); NaN in steps without tokens."""
    mean_S = tokens_SE.mean(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(mean_S[:, None] > 0, tokens_SE / mean_S[:, None], np.nan)


def max_violation(tokens_SE: Floats) -> Floats:
    """MaxVio of 2408.15664, greatest load / mean - 1: (S,); NaN in steps without tokens."""
    greatest: Floats = ratio(tokens_SE).max(axis=1) - 1
    return greatest


def load_entropy(tokens_SE: Floats) -> Floats:
    """Entropy of the shares of the experts / ln E: (S,), 1 where all are equal, NaN without tokens.

    1 where there is one expert only.
    """
    experts = tokens_SE.shape[1]
    share_SE = ratio(tokens_SE) / experts
    if experts == 1:
        return np.where(np.isnan(share_SE[:, 0]), np.nan, 1.0)
    logs_SE = np.log(np.where(share_SE > 0, share_SE, 1.0))
    entropy: Floats = -(share_SE * logs_SE).sum(axis=1) / np.log(experts)
    return entropy


def ep_rank_loads(tokens_SE: Floats, parts: Sequence[tuple[int, int]]) -> Floats:
    """Tokens of the experts on each EP rank: (S, P). `parts`: its first expert and how many it has.

    Raises ValueError for experts that the layer does not have.
    """
    experts = tokens_SE.shape[1]
    for first, num in parts:
        if first < 0 or num < 1 or first + num > experts:
            raise ValueError(
                f"experts {first} to {first + num - 1} are not among the {experts} of the layer"
            )
    columns = [tokens_SE[:, first : first + num].sum(axis=1) for first, num in parts]
    return np.stack(columns, axis=1) if columns else np.empty((len(tokens_SE), 0))


def saved_by_balance(worst_ratio_L: Floats, expert_step_ms: float) -> float:
    """What a step would save if every EP rank had equally many tokens, ms.

    `worst_ratio_L`: of each layer the load of the fullest EP rank / mean. `expert_step_ms`: time of
    the experts in a step, mean over EP ranks. Assumes that experts take time in proportion to their
    tokens, that layers take equally long, and that all wait for the fullest rank in each.
    """
    known_L = worst_ratio_L[np.isfinite(worst_ratio_L)]
    if not known_L.size:
        return 0.0
    return float(expert_step_ms * (known_L - 1).mean())
