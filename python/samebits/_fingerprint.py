"""The fingerprint ``fp/1`` of docs/contract.md over bytes on the host, and the layout that every backend shares.

Verified: the vectors of cases/vectors/fingerprint.json, on each backend. 128 bits in two lanes, sums over blocks of
1,024 bytes, so that many tensors can be laid one after another, reduced together and read back in one small copy.
"""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Sequence, Tuple

BLOCK = 1024
GOLDEN = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1
#: From this size a tensor's full blocks are read in place; smaller ones are gathered into one pool.
DIRECT = 256 * 1024

Lanes = Tuple[int, int]


def mix64(z: int) -> int:
    """The splitmix64 finaliser."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def _keys() -> List[List[int]]:
    return [[mix64(((k * 256 + i + 1) * GOLDEN) & MASK) & 0xFFFFFFFF for i in range(256)] for k in (0, 1)]


#: Word constants K of both lanes.
KEYS = _keys()
#: The same in pairs, as little-endian 64-bit words hold them.
KEYS64 = [[lane[2 * i] | lane[2 * i + 1] << 32 for i in range(128)] for lane in KEYS]


def length_term(n_bytes: int) -> int:
    """What a tensor's length adds to each lane."""
    return mix64(n_bytes + 1)


def text(lanes: Lanes) -> str:
    """32 hex digits, lane 0 first."""
    return f"{lanes[0]:016x}{lanes[1]:016x}"


def signed(x: int) -> int:
    """The signed 64-bit number with the same bits."""
    return x - (1 << 64) if x >> 63 else x


def of_bytes(data: bytes) -> Lanes:
    """Lanes of a byte string with Python's own integers: for small things where no array library is loaded."""
    term = length_term(len(data))
    lanes = [term, term]
    padded = data + bytes(-len(data) % BLOCK)
    words = memoryview(padded).cast("Q")
    for j in range(len(padded) // BLOCK):
        block = words[j * 128 : (j + 1) * 128]
        for k in (0, 1):
            f = 0
            for word, key in zip(block, KEYS64[k]):
                x = word ^ key
                f += (x & 0xFFFFFFFF) * (x >> 32)
            lanes[k] = (lanes[k] + mix64((f + (j + 1) * GOLDEN) & MASK)) & MASK
    return lanes[0], lanes[1]


class Layout:
    """Where the blocks of a list of tensors lie when they are reduced together.

    Large tensors' full blocks come first, read in place; then the pool, in which every small tensor and every rest is
    padded to whole blocks. Each run of blocks is a segment; a tensor is the sum of at most two segments.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = tuple(sizes)
        self.direct = [n // BLOCK if n >= DIRECT else 0 for n in sizes]
        self.starts: List[int] = [0]
        self.ends: List[int] = [0]
        #: For each tensor its two segments; segment 0 is empty.
        self.segments: List[Tuple[int, int]] = [(0, 0)] * len(self.sizes)
        #: Index of each block within its tensor.
        self.index: List[range] = []
        self._place()
        self.blocks = self.ends[-1]

    def _segment(self, first: int, blocks: int) -> int:
        if blocks == 0:
            return 0
        self.starts.append(self.ends[-1])
        self.ends.append(self.ends[-1] + blocks)
        self.index.append(range(first, first + blocks))
        return len(self.starts) - 1

    def _place(self) -> None:
        whole = [self._segment(0, blocks) for blocks in self.direct]
        for i, size in enumerate(self.sizes):
            rest = size - self.direct[i] * BLOCK
            self.segments[i] = (whole[i], self._segment(self.direct[i], -(-rest // BLOCK)))

    def offsets(self) -> List[int]:
        """(j + 1) * GOLDEN of every block, in the order of the segments."""
        return [((j + 1) * GOLDEN) & MASK for part in self.index for j in part]

    def terms(self) -> List[int]:
        """The length term of every tensor."""
        return [length_term(n) for n in self.sizes]


class LayoutCache:
    """What a backend prepares for a layout, kept for the shapes that come again at every step."""

    def __init__(self) -> None:
        self._kept: Dict[Any, Any] = {}

    def get(self, key: Any, make: Any) -> Any:
        """The prepared value under a key; made at its first use."""
        if key not in self._kept:
            if len(self._kept) >= 64:
                self._kept.clear()
            self._kept[key] = make()
        return self._kept[key]


def of_many(items: Sequence[bytes]) -> List[Lanes]:
    """Lanes of byte strings, by NumPy if the program has loaded it, else by PyTorch, else by Python itself."""
    if "numpy" in sys.modules:
        from . import _numpy

        return _numpy.lanes([_numpy.from_bytes(item) for item in items])
    if "torch" in sys.modules:
        from . import _torch

        return _torch.lanes([_torch.from_bytes(item) for item in items], [])[0]
    return [of_bytes(item) for item in items]
