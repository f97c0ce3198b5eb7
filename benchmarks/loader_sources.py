"""Which source each sample is from, in the libraries that mix sources, against a count by hand.

    python benchmarks/loader_sources.py [--only NAME ..]

Prints one line for each library, its version, and where its samples are drawn (in the rank, in
forked workers, in spawned ones): whether the recorded samples by source equal a count of what the
batches held, whether the planned shares are those of the mixture, and whether the batches are the
same without hooks. Each runs where its package is installed; none is a dependency. A sample is a
number that says its source. Ends with 1 if an answer is no.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, WeightedRandomSampler

import trace_hooks as th
from trace_hooks.schema.reading import read_rows

SOURCES = ("web", "code", "books")
SIZES = (900, 500, 400)
PLANNED = (0.6, 0.3, 0.1)
SHARDS = 4
BATCH = 8
SOURCE_FACTOR = 100_000
"""Sample n of source s is the number s * SOURCE_FACTOR + n."""

MODES = ("rank", "fork", "spawn")


class Case(NamedTuple):
    """`loader`: batches, for each mode. `names` of the sources in order; `planned` None: the
    library plans nothing.
    """

    package: str
    loader: Callable[[str], Iterable[Any]]
    names: tuple[str, ...] = SOURCES
    planned: tuple[float, ...] | None = PLANNED
    modes: tuple[str, ...] = MODES


class Numbers(Dataset[int]):
    """A source of numbers."""

    def __init__(self, place: int) -> None:
        self.source = SOURCES[place]
        self.numbers = numbers(place)

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> int:
        return self.numbers[index]


def numbers(place: int) -> list[int]:
    """Samples of a source."""
    return [place * SOURCE_FACTOR + number for number in range(SIZES[place])]


def workers(mode: str) -> dict[str, Any]:
    """Arguments of a DataLoader."""
    return {} if mode == "rank" else {"num_workers": 2, "multiprocessing_context": mode}


def listed(samples: list[Any]) -> list[int]:
    """A batch: numbers, whatever the library wraps them in."""
    return [int(sample["n"]) if isinstance(sample, dict) else int(sample) for sample in samples]


def torch_concat(_: Path) -> Case:
    """ConcatDataset with a WeightedRandomSampler."""
    weights = [
        share / size for share, size in zip(PLANNED, SIZES, strict=True) for _ in range(size)
    ]

    def loader(mode: str) -> Iterable[Any]:
        mixture = ConcatDataset([Numbers(place) for place in range(3)])
        sampler = WeightedRandomSampler(weights, 600)
        return DataLoader(mixture, BATCH, sampler=sampler, collate_fn=listed, **workers(mode))

    return Case("torch", loader)


def generate_web(shards: list[int]) -> Iterator[dict[str, int]]:
    """Rows of some shards."""
    yield from _shards(0, shards)


def generate_code(shards: list[int]) -> Iterator[dict[str, int]]:
    """Rows of some shards."""
    yield from _shards(1, shards)


def generate_books(shards: list[int]) -> Iterator[dict[str, int]]:
    """Rows of some shards."""
    yield from _shards(2, shards)


def _shards(place: int, shards: list[int]) -> Iterator[dict[str, int]]:
    for shard in shards:
        for number in numbers(place)[shard::SHARDS]:
            yield {"n": number}


def hugging_face_generators(folder: Path) -> Case:
    """Streams of generators, interleaved."""
    import datasets

    def loader(mode: str) -> Iterable[Any]:
        made = (generate_web, generate_code, generate_books)
        shards = {"shards": list(range(SHARDS))}
        found = [datasets.IterableDataset.from_generator(one, gen_kwargs=shards) for one in made]
        mixture = datasets.interleave_datasets(found, probabilities=list(PLANNED), seed=3)
        return DataLoader(mixture, BATCH, collate_fn=listed, **workers(mode))

    return Case("datasets", loader, tuple(f"generate_{name}" for name in SOURCES))


def hugging_face_files(folder: Path) -> Case:
    """Streams of files, interleaved in turn and shuffled in a buffer."""
    import datasets

    for place, name in enumerate(SOURCES):
        (folder / name).mkdir()
        for shard in range(SHARDS):
            lines = [json.dumps({"n": number}) for number in numbers(place)[shard::SHARDS]]
            (folder / name / f"train-{shard:05}-of-00004.jsonl").write_text("\n".join(lines))

    def loader(mode: str) -> Iterable[Any]:
        found = [
            datasets.load_dataset(
                "json",
                data_files=str(folder / name / "*.jsonl"),
                split="train",
                streaming=True,
                cache_dir=str(folder / "cache"),
            )
            for name in SOURCES
        ]
        mixture = datasets.interleave_datasets(found, stopping_strategy="first_exhausted")
        shuffled = mixture.shuffle(seed=5, buffer_size=16)
        return DataLoader(shuffled, BATCH, collate_fn=listed, **workers(mode))

    return Case("datasets", loader, planned=(1 / 3,) * 3)


def hugging_face_tables(folder: Path) -> Case:
    """Tables, interleaved and shuffled."""
    import datasets

    def loader(mode: str) -> Iterable[Any]:
        found = [datasets.Dataset.from_dict({"n": numbers(place)}) for place in range(3)]
        mixture = datasets.interleave_datasets(found, probabilities=list(PLANNED), seed=3)
        mixture = mixture.shuffle(seed=4).with_format("torch")
        return DataLoader(mixture, BATCH, collate_fn=listed, **workers(mode))

    return Case("datasets", loader, tuple(f"source {place}" for place in range(3)))


def _archives(folder: Path) -> dict[str, list[str]]:
    """Shards of webdataset by source."""
    found: dict[str, list[str]] = {}
    for place, name in enumerate(SOURCES):
        for shard in range(SHARDS):
            path = folder / f"{name}-{shard:06}.tar"
            with tarfile.open(path, "w") as archive:
                for number in numbers(place)[shard::SHARDS]:
                    data = str(number).encode()
                    entry = tarfile.TarInfo(f"{number:08}.txt")
                    entry.size = len(data)
                    archive.addfile(entry, io.BytesIO(data))
            found.setdefault(name, []).append(str(path))
    return found


def from_archive(sample: dict[str, Any]) -> int:
    """The number in a sample of webdataset."""
    return int(sample["txt"])


def webdataset_mix(folder: Path) -> Case:
    """RandomMix of three data sets."""
    import webdataset

    shards = _archives(folder)

    def loader(mode: str) -> Iterable[Any]:
        found = [
            webdataset.WebDataset(shards[name], shardshuffle=False).map(from_archive)
            for name in SOURCES
        ]
        mixture = webdataset.RandomMix(found, list(PLANNED))
        return DataLoader(mixture, BATCH, collate_fn=listed, **workers(mode))

    return Case("webdataset", loader)


def webdataset_files(folder: Path) -> Case:
    """One data set of shards of all sources, whose file names say which source they hold."""
    import webdataset

    shards = _archives(folder)

    def loader(mode: str) -> Iterable[Any]:
        every = [path for paths in shards.values() for path in paths]
        found = webdataset.WebDataset(every, shardshuffle=False)
        found = found.compose(webdataset.detshuffle(50, seed=3)).map(from_archive)
        return DataLoader(found, BATCH, collate_fn=listed, **workers(mode))

    return Case("webdataset", loader, planned=None)


def mosaic(folder: Path) -> Case:
    """StreamingDataset of three streams."""
    from streaming.base.dataset import StreamingDataset
    from streaming.base.format.mds.writer import MDSWriter
    from streaming.base.stream import Stream

    for place, name in enumerate(SOURCES):
        place_of = str(folder / name / "mds")
        with MDSWriter(out=place_of, columns={"n": "int"}, size_limit=4096) as writer:
            for number in numbers(place):
                writer.write({"n": number})

    def loader(mode: str) -> Iterable[Any]:
        streams = [
            Stream(local=str(folder / name / "mds"), proportion=share)
            for name, share in zip(SOURCES, PLANNED, strict=True)
        ]
        mixture = StreamingDataset(
            streams=streams, batch_size=BATCH, epoch_size=600, shuffle=True, num_canonical_nodes=1
        )
        return DataLoader(mixture, BATCH, collate_fn=listed, **workers(mode))

    return Case("mosaicml-streaming", loader)


def torchdata_nodes(_: Path) -> Case:
    """MultiNodeWeightedSampler; nodes run in the rank, with threads of their own."""
    from torchdata import nodes

    def loader(mode: str) -> Iterable[Any]:
        found = {name: nodes.IterableWrapper(numbers(n)) for n, name in enumerate(SOURCES)}
        weights = dict(zip(SOURCES, PLANNED, strict=True))
        drawn = nodes.MultiNodeWeightedSampler(found, weights, "FIRST_DATASET_EXHAUSTED", 0, 1)
        return nodes.Loader(nodes.Prefetcher(nodes.Batcher(drawn, BATCH, drop_last=False), 2))

    return Case("torchdata", loader, modes=("rank",))


def megatron(_: Path) -> Case:
    """BlendedDataset of Megatron-core."""
    from megatron.core.datasets.blended_dataset import BlendedDataset

    def loader(mode: str) -> Iterable[Any]:
        config = SimpleNamespace(path_to_cache=None, defer_npy_index_mmap=False)
        found = [Blend(place) for place in range(3)]
        mixture = BlendedDataset(found, list(PLANNED), 600, config)  # type: ignore[arg-type]
        return DataLoader(mixture, BATCH, shuffle=True, collate_fn=listed, **workers(mode))

    names = tuple(f"{name}_text_document" for name in SOURCES)
    return Case("megatron-core", loader, names)


class Blend(Dataset[dict[str, int]]):
    """In place of Megatron's GPTDataset, which needs a tokenizer and its own file format."""

    def __init__(self, place: int) -> None:
        self.numbers = numbers(place)
        self.dataset_path = f"data/{SOURCES[place]}_text_document"
        self.index_split = SimpleNamespace(name="train")
        self.unique_identifiers = {"path": self.dataset_path}

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> dict[str, int]:
        return {"n": self.numbers[index]}


CASES: dict[str, Callable[[Path], Case]] = {
    "torch ConcatDataset": torch_concat,
    "Hugging Face generators": hugging_face_generators,
    "Hugging Face files": hugging_face_files,
    "Hugging Face tables": hugging_face_tables,
    "webdataset RandomMix": webdataset_mix,
    "webdataset files": webdataset_files,
    "MosaicML Streaming": mosaic,
    "torchdata nodes": torchdata_nodes,
    "Megatron BlendedDataset": megatron,
}


def batches_of(case: Case, mode: str) -> list[list[int]]:
    """One epoch, the same each time."""
    torch.manual_seed(1)
    random.seed(1)
    return [list(map(int, batch)) for batch in case.loader(mode)]


def recorded(case: Case, mode: str) -> tuple[list[list[int]], Counter[str], dict[str, float]]:
    """The same epoch with hooks: its batches, samples by source, and planned shares."""
    torch.manual_seed(1)
    random.seed(1)
    with tempfile.TemporaryDirectory() as folder:
        tracer = th.start(folder, sources=["data"])
        batches = []
        for batch in case.loader(mode):
            with tracer.step():
                batches.append(list(map(int, batch)))
        tracer.stop()
        runs = Path(folder).iterdir()
        rows = [row for run in runs for row in read_rows(run, "batch_sources").to_pylist()]
    samples = Counter[str]()
    for row in rows:
        samples[row["source"]] += row["samples"]
    planned = {row["source"]: row["planned"] for row in rows if row["planned"] is not None}
    return batches, samples, planned


def answers(case: Case, mode: str) -> dict[str, bool]:
    """What is asked of a library, and whether it is so."""
    alone = batches_of(case, mode)
    batches, samples, planned = recorded(case, mode)
    by_hand = Counter(case.names[number // SOURCE_FACTOR] for batch in alone for number in batch)
    shares = dict(zip(case.names, case.planned or (), strict=case.planned is not None))
    is_planned = set(planned) == set(shares) and all(
        abs(planned[name] - share) < 0.002 for name, share in shares.items()
    )
    equal = {name: number for name, number in samples.items() if number} == dict(by_hand)
    if not equal or not is_planned:
        print(f"  recorded {dict(samples)} of {planned}, by hand {dict(by_hand)} of {shares}")
    return {
        "shares equal to a count by hand": equal,
        "planned shares equal": is_planned,
        "batches equal with and without hooks": batches == alone and bool(alone),
    }


def main() -> int:
    """All libraries; 0 where every answer is yes."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--only", nargs="*", default=list(CASES), help="names of libraries")
    right = True
    for name in parser.parse_args().only:
        with tempfile.TemporaryDirectory(prefix="rankscope-sources-") as folder:
            try:
                case = CASES[name](Path(folder))
                number = version(case.package)
            except (ImportError, PackageNotFoundError) as error:
                print(f"{name}: cannot run here: {error}")
                continue
            for mode in case.modes:
                found = answers(case, mode)
                right = right and all(found.values())
                text = "; ".join(
                    f"{asked}: {'yes' if is_so else 'NO'}" for asked, is_so in found.items()
                )
                print(f"{name} ({case.package} {number}), {mode}: {text}", flush=True)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
