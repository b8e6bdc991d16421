"""NumPy arrays: their type, bytes, and fingerprints in uint64."""

from __future__ import annotations

import hashlib
from typing import Any, List, Sequence, Tuple

import numpy as np

from ._error import RecordError
from ._fingerprint import BLOCK, KEYS64, MASK, Lanes, Layout, LayoutCache

DTYPES = {
    "bool": "bool", "uint8": "u8", "int8": "i8", "uint16": "u16", "int16": "i16", "uint32": "u32", "int32": "i32",
    "uint64": "u64", "int64": "i64", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    "complex64": "c64", "complex128": "c128",
}  # fmt: skip
#: Blocks that are worked on at once: what a core's cache holds.
CHUNK = 1024

_keys = np.array(KEYS64, dtype=np.uint64)
_layouts = LayoutCache()


def from_bytes(data: bytes) -> Any:
    """A byte string as an array."""
    return np.frombuffer(data, dtype=np.uint8)


def describe(name: str, array: Any) -> Tuple[str, Tuple[int, ...]]:
    """Type and shape as the trace declares them."""
    kind = array.dtype
    if kind.hasobject or kind.names is not None or kind.char in "gG":
        raise RecordError(
            f"{name}: its elements are {kind}, whose bytes hold padding or pointers that differ between equal runs; "
            "record its parts, convert it (astype), or leave it out (exclude)"
        )
    known = DTYPES.get(kind.name)
    shape = tuple(int(n) for n in array.shape)
    return (known, shape) if known else ("u8", (*shape, kind.itemsize))


def flat(array: Any) -> Any:
    """Its bytes, little-endian and row-major, as a flat array; a copy only if they do not lie so already."""
    array = np.asarray(array)
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def sha256(array: Any) -> str:
    """SHA-256 of the same."""
    return hashlib.sha256(flat(array)).hexdigest()


def _sums(words: Any, out: Any) -> None:
    """F of every block (rows of 128 words), both lanes."""
    low32, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    for start in range(0, len(words), CHUNK):
        part = words[start : start + CHUNK]
        for k in (0, 1):
            low = part ^ _keys[k]
            high = low >> shift
            low &= low32
            low *= high
            low.sum(axis=1, out=out[start : start + CHUNK, k])


def _mix(z: Any) -> Any:
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


def _prepare(layout: Layout) -> Tuple[Any, ...]:
    column = [np.array(x, dtype=np.uint64).reshape(-1, 1) for x in (layout.offsets(), layout.terms())]
    places = [np.array(x, dtype=np.int64) for x in (layout.starts, layout.ends)]
    return (*column, *places, np.array(layout.segments, dtype=np.int64).reshape(-1, 2))


def lanes(arrays: Sequence[Any]) -> List[Lanes]:
    """Fingerprints of flat byte arrays."""
    if not arrays:
        return []
    sizes = tuple(len(a) for a in arrays)
    layout, prepared = _layouts.get(sizes, lambda: (lambda it: (it, _prepare(it)))(Layout(sizes)))
    offsets, terms, starts, ends, segments = prepared
    sums = np.empty((layout.blocks, 2), dtype=np.uint64)
    pad: Any = np.zeros(BLOCK, dtype=np.uint8)
    at, pieces = 0, []
    for array, blocks in zip(arrays, layout.direct):
        if blocks:
            _sums(array[: blocks * BLOCK].view(np.uint64).reshape(-1, 128), sums[at : at + blocks])
            at += blocks
        rest = array[blocks * BLOCK :]
        pieces += [rest, pad[: -len(rest) % BLOCK]]
    _sums(np.concatenate(pieces).view(np.uint64).reshape(-1, 128), sums[at:])
    running = np.zeros((layout.blocks + 1, 2), dtype=np.uint64)
    np.cumsum(_mix(sums + offsets), axis=0, out=running[1:])
    by_segment = running[ends] - running[starts]
    total = by_segment[segments[:, 0]] + by_segment[segments[:, 1]] + terms
    return [(a & MASK, b & MASK) for a, b in total.tolist()]
