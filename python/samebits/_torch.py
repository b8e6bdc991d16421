"""PyTorch tensors: their type, bytes, and fingerprints in int64 on the device where they live.

Signed 64-bit numbers wrap as unsigned ones do in sums, products and exclusive-or; a logical shift is an arithmetic one
and a mask. Nothing here takes part in autograd, draws a random number or sets a mode; the only waiting is for one copy
of sixteen bytes a tensor from each device.
"""

from __future__ import annotations

import ctypes
import hashlib
import sys
from typing import Any, Dict, List, Sequence, Tuple

import torch

from ._error import RecordError
from ._fingerprint import BLOCK, KEYS64, MASK, Lanes, Layout, LayoutCache, signed

DTYPES = {
    "bool": "bool", "uint8": "u8", "int8": "i8", "uint16": "u16", "int16": "i16", "uint32": "u32", "int32": "i32",
    "uint64": "u64", "int64": "i64", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    "complex64": "c64", "complex128": "c128",
}  # fmt: skip
#: Blocks that are worked on at once: what a core's cache holds; on an accelerator what bounds the extra memory.
CHUNK_CPU, CHUNK_DEVICE = 1024, 64 * 1024

_keys: Dict[Any, Any] = {}
_layouts = LayoutCache()


def is_tensor(value: object) -> bool:
    """True for a tensor (a Parameter too)."""
    return isinstance(value, torch.Tensor)


def from_bytes(data: bytes) -> Any:
    """A byte string as a tensor."""
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8, device="cpu")


def describe(name: str, tensor: Any) -> Tuple[str, Tuple[int, ...]]:
    """Type and shape as the trace declares them."""
    plain = tensor.layout == torch.strided and not tensor.is_quantized and not tensor.is_meta
    if not plain or type(tensor).__name__ == "DTensor" or tensor.is_nested:
        kind = f"{type(tensor).__name__} of layout {tensor.layout} on {tensor.device}"
        raise RecordError(
            f"{name}: it is a {kind}, expected a dense tensor with data; pass its parts (values(), int_repr(), "
            "to_local()) under names of their own, or leave it out (exclude)"
        )
    known = DTYPES.get(str(tensor.dtype).replace("torch.", ""))
    shape = tuple(int(n) for n in tensor.shape)
    return (known, shape) if known else ("u8", (*shape, tensor.element_size()))


def flat(tensor: Any) -> Any:
    """Its bytes, row-major, as a flat tensor of uint8 on its device; a copy only if they do not lie so already."""
    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return tensor if tensor.dtype == torch.uint8 else tensor.view(torch.uint8)


def sha256(tensor: Any) -> str:
    """SHA-256 of the same, on the host."""
    host = flat(tensor).cpu()
    size = host.numel()
    return hashlib.sha256((ctypes.c_char * size).from_address(host.data_ptr()) if size else b"").hexdigest()


def _keys_on(device: Any) -> Any:
    if device not in _keys:
        numbers = [[signed(x) for x in lane] for lane in KEYS64]
        _keys[device] = torch.tensor(numbers, dtype=torch.int64, device=device)
    return _keys[device]


def _sums(words: Any, out: Any) -> None:
    """F of every block (rows of 128 words), both lanes."""
    keys = _keys_on(words.device)
    chunk = CHUNK_CPU if words.device.type == "cpu" else CHUNK_DEVICE
    for start in range(0, words.shape[0], chunk):
        part = words[start : start + chunk]
        for k in (0, 1):
            low = part ^ keys[k]
            high = low >> 32
            high &= 0xFFFFFFFF
            low &= 0xFFFFFFFF
            low *= high
            out[start : start + chunk, k] = low.sum(1)


def _shifted(z: Any, by: int) -> Any:
    return (z >> by) & ((1 << (64 - by)) - 1)


def _mix(z: Any) -> Any:
    z = (z ^ _shifted(z, 30)) * signed(0xBF58476D1CE4E5B9)
    z = (z ^ _shifted(z, 27)) * signed(0x94D049BB133111EB)
    return z ^ _shifted(z, 31)


class _Prepared:
    """A layout and its constants on a device."""

    def __init__(self, sizes: Sequence[int], device: Any) -> None:
        def on_device(numbers: Any) -> Any:
            return torch.tensor(numbers, dtype=torch.int64, device=device)

        self.layout = Layout(sizes)
        self.offsets = on_device([signed(x) for x in self.layout.offsets()]).reshape(-1, 1)
        self.terms = on_device([signed(x) for x in self.layout.terms()]).reshape(-1, 1)
        self.starts, self.ends = on_device(self.layout.starts), on_device(self.layout.ends)
        self.segments = on_device(self.layout.segments).reshape(-1, 2)
        self.pad = torch.zeros(BLOCK, dtype=torch.uint8, device=device)
        self.zero = torch.zeros((1, 2), dtype=torch.int64, device=device)


def _words(data: Any) -> Any:
    """Whole blocks of bytes as rows of 128 words; copied if their address does not allow the view."""
    if data.storage_offset() % 8:
        data = data.clone()
    return data.view(torch.int64).reshape(-1, 128)


def _on_device(tensors: Sequence[Any], device: Any) -> Any:
    """Lanes of flat byte tensors of one device, [n, 2], still there."""
    sizes = tuple(t.numel() for t in tensors)
    prepared: _Prepared = _layouts.get((sizes, device), lambda: _Prepared(sizes, device))
    layout = prepared.layout
    sums = torch.empty((layout.blocks, 2), dtype=torch.int64, device=device)
    at, pieces = 0, []
    for tensor, blocks in zip(tensors, layout.direct):
        if blocks:
            _sums(_words(tensor[: blocks * BLOCK]), sums[at : at + blocks])
            at += blocks
        rest = tensor[blocks * BLOCK :] if blocks else tensor
        pieces.append(rest)
        if rest.numel() % BLOCK:
            pieces.append(prepared.pad[: -rest.numel() % BLOCK])
    _sums(_words(torch.cat(pieces)), sums[at:])
    running = torch.cat([prepared.zero, torch.cumsum(_mix(sums + prepared.offsets), 0)])
    by_segment = running[prepared.ends] - running[prepared.starts]
    return by_segment[prepared.segments[:, 0]] + by_segment[prepared.segments[:, 1]] + prepared.terms


def _numbers(metrics: Sequence[Any]) -> List[Any]:
    """Metrics as the bits of binary64, on their device."""
    return [m.detach().reshape(1).to(torch.float64).view(torch.int64) for m in metrics]


def _on_host(tensors: Sequence[Any]) -> List[Lanes]:
    """Lanes of flat byte tensors of the CPU: by NumPy, which is twice as fast on the same memory, if it is loaded."""
    if "numpy" in sys.modules:
        from . import _numpy

        return _numpy.lanes([t.numpy() for t in tensors])
    return _pairs(_on_device(tensors, tensors[0].device).reshape(-1).tolist())


def _pairs(values: Sequence[int]) -> List[Lanes]:
    return [(low & MASK, high & MASK) for low, high in zip(values[::2], values[1::2])]


def lanes(tensors: Sequence[Any], metrics: Sequence[Any]) -> Tuple[List[Lanes], List[int]]:
    """Fingerprints of flat byte tensors, and metrics as binary64 bits: one small copy from each device."""
    found: List[Lanes] = [(0, 0)] * len(tensors)
    bits = [0] * len(metrics)
    for device in dict.fromkeys(t.device for t in (*tensors, *metrics)):
        of_tensors = [i for i, t in enumerate(tensors) if t.device == device]
        of_metrics = [i for i, m in enumerate(metrics) if m.device == device]
        mine, numbers = [tensors[i] for i in of_tensors], _numbers([metrics[i] for i in of_metrics])
        pairs: List[Lanes] = []
        if device.type == "cpu":
            pairs = _on_host(mine) if mine else []
            values = torch.cat(numbers).tolist() if numbers else []
        else:
            parts = [_on_device(mine, device).reshape(-1)] if mine else []
            values = torch.cat(parts + numbers).tolist()
            pairs, values = _pairs(values[: 2 * len(mine)]), values[2 * len(mine) :]
        for i, pair in zip(of_tensors, pairs):
            found[i] = pair
        for i, value in zip(of_metrics, values):
            bits[i] = value & MASK
    return found, bits
