"""Which of the libraries the job has imported: their adapters count the samples of each source.

Sees: torch's ConcatDataset, Hugging Face `interleave_datasets` of streams and of tables, webdataset
(RandomMix, RoundRobin, else the files' names), MosaicML Streaming, torchdata's
MultiNodeWeightedSampler and Megatron-core's BlendedDataset, in the rank and in workers. Methods of
classes are replaced; a library is never imported here, and its samples pass as they are. In a
mixture of mixtures the outermost one counts. What an adapter cannot read, as in another version, it
leaves alone.
Misses: mixtures of an iteration that began before the hooks; tables that were mapped after they
were mixed. Costs: see benchmarks/event_costs.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from trace_hooks.sources.mixtures import adapters, hugging_face
from trace_hooks.sources.mixtures.counting import Replace
from trace_hooks.sources.mixtures.draws import UNHARMED
from trace_hooks.sources.patching import Patches

ADAPTERS: dict[str, Callable[[Any, Replace], None]] = {
    "torch.utils.data.dataset": adapters.concatenated,
    "datasets.iterable_dataset": hugging_face.streams,
    "datasets.combine": hugging_face.interleaved_tables,
    "datasets.arrow_dataset": hugging_face.tables,
    "webdataset.mix": adapters.web_mixes,
    "webdataset.pipeline": adapters.web_pipelines,
    "streaming.base.dataset": adapters.streaming,
    "torchdata.nodes.samplers.multi_node_weighted_sampler": adapters.weighted_nodes,
    "megatron.core.datasets.blended_dataset": adapters.blended,
}
"""By the module whose classes they replace."""


class Libraries:
    """What is replaced in this process. A forked worker goes on with what its rank replaced."""

    def __init__(self) -> None:
        self._patches = Patches()
        self._adapted: dict[str, object] = {}

    def adapt(self) -> None:
        """Adapt those that were imported since; may be called from several threads."""
        for name, adapter in ADAPTERS.items():
            module = sys.modules.get(name)
            if module is None or name in self._adapted or _is_importing(module):
                continue
            mine = object()
            if self._adapted.setdefault(name, mine) is mine:
                with UNHARMED:
                    adapter(module, self._patches.replace)

    def restore(self) -> None:
        """Put back what was replaced."""
        self._patches.restore()
        self._adapted.clear()


libraries = Libraries()


def _is_importing(module: Any) -> bool:
    return getattr(getattr(module, "__spec__", None), "_initializing", False) is True
