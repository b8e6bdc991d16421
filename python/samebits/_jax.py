"""JAX arrays: their type, bytes, and fingerprints in uint32 (64-bit types are off by default) where they live.

A 64-bit number is a pair (low, high) of uint32. Sums split the low words into halves of 16 bits, so that 65,536 of them
add up without losing a carry.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

import jax
import jax.numpy as jnp
import numpy as np

from . import _numpy
from ._error import RecordError
from ._fingerprint import GOLDEN, KEYS, MASK, Lanes, length_term

#: Most numbers added at once.
GROUP = 65536
Pair = Tuple[Any, Any]


def is_array(value: object) -> bool:
    """True for a concrete array."""
    return isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer)


def is_key(value: Any) -> bool:
    """True for an array of typed random keys."""
    return bool(jnp.issubdtype(value.dtype, jax.dtypes.prng_key))


def key_data(value: Any) -> Any:
    """The numbers of typed random keys."""
    return jax.random.key_data(value)


def describe(name: str, array: Any) -> Tuple[str, Tuple[int, ...]]:
    """Type and shape as the trace declares them."""
    if not array.is_fully_addressable:
        raise RecordError(
            f"{name}: parts of it live in other processes; pass the parts of this one "
            "(array.addressable_shards) under names of their own"
        )
    if array.dtype.name.endswith(("int4", "int2", "int1", "e2m1fn")):
        raise RecordError(f"{name}: {array.dtype.name} has no bytes of its own; pass it as int8, or leave it out")
    return _numpy.describe(name, np.empty(array.shape, array.dtype) if array.size == 0 else _Like(array))


class _Like:
    """Type and shape of an array, without its data."""

    def __init__(self, array: Any) -> None:
        self.dtype, self.shape = np.dtype(array.dtype), array.shape


def sha256(array: Any) -> str:
    """SHA-256 of its bytes, on the host."""
    return _numpy.sha256(np.asarray(array))


def _words(array: Any) -> Any:
    """Its bytes as uint32 words in whole blocks, [blocks, 256]."""
    x = array.reshape(-1)
    if jnp.iscomplexobj(x):
        x = jnp.stack([x.real, x.imag], -1).reshape(-1)
    if x.dtype == jnp.bool_:
        x = x.astype(jnp.uint8)
    size = np.dtype(x.dtype).itemsize
    if size < 4:
        unsigned = jnp.uint8 if size == 1 else jnp.uint16
        x = jax.lax.bitcast_convert_type(x, unsigned)
        x = jnp.pad(x, (0, -x.shape[0] % (4 // size))).reshape(-1, 4 // size)
        x = jax.lax.bitcast_convert_type(x, jnp.uint32)
    else:
        x = jax.lax.bitcast_convert_type(x, jnp.uint32).reshape(-1)
    return jnp.pad(x, (0, -x.shape[0] % 256)).reshape(-1, 256)


def _u32(x: int) -> Any:
    return np.uint32(x & 0xFFFFFFFF)


def _product(a: Any, b: Any) -> Pair:
    """The 64-bit product of 32-bit words, from products of 16-bit halves."""
    a0, a1, b0, b1 = a & 0xFFFF, a >> 16, b & 0xFFFF, b >> 16
    low = a0 * b0
    middle = a1 * b0 + (low >> 16)
    other = a0 * b1 + (middle & 0xFFFF)
    return (other << 16) | (low & 0xFFFF), a1 * b1 + (middle >> 16) + (other >> 16)


def _times(z: Pair, constant: int) -> Pair:
    low, high = _product(z[0], _u32(constant))
    return low, high + z[0] * _u32(constant >> 32) + z[1] * _u32(constant)


def _add(a: Pair, b: Pair) -> Pair:
    low = a[0] + b[0]
    return low, a[1] + b[1] + (low < a[0]).astype(jnp.uint32)


def _xor_shift(z: Pair, by: int) -> Pair:
    low = (z[0] >> by) | (z[1] << (32 - by))
    return z[0] ^ low, z[1] ^ (z[1] >> by)


def _mix(z: Pair) -> Pair:
    z = _times(_xor_shift(z, 30), 0xBF58476D1CE4E5B9)
    z = _times(_xor_shift(z, 27), 0x94D049BB133111EB)
    return _xor_shift(z, 31)


def _sum(z: Pair, axis: int) -> Pair:
    """Sum of at most 65,536 numbers along an axis."""
    def total(x: Any) -> Any:
        return jnp.sum(x, axis=axis, dtype=jnp.uint32)

    first, second = total(z[0] & 0xFFFF), total(z[0] >> 16)
    second = second + (first >> 16)
    return (second << 16) | (first & 0xFFFF), total(z[1]) + (second >> 16)


def _sum_all(z: Pair) -> Pair:
    while z[0].shape[0] > GROUP:
        low, high = (jnp.pad(x, (0, -x.shape[0] % GROUP)).reshape(-1, GROUP) for x in z)
        z = _sum((low, high), 1)
    return _sum(z, 0)


def _lane(words: Any, offset: Pair, k: int) -> Pair:
    """mix64(F + offset) of every block."""
    keyed = words ^ np.array(KEYS[k], dtype=np.uint32)
    f = _sum(_product(keyed[:, 0::2], keyed[:, 1::2]), 1)
    return _mix(_add(f, offset))


def _reduce(arrays: List[Any]) -> Any:
    """[n, 2, 2]: by tensor and lane the low and the high half. Lengths are added by the caller."""
    words = [_words(a) for a in arrays]
    index = jnp.concatenate([jnp.arange(w.shape[0], dtype=jnp.uint32) for w in words])
    offset = _times((index + np.uint32(1), jnp.zeros_like(index)), GOLDEN)
    both = [_lane(jnp.concatenate(words), offset, k) for k in (0, 1)]
    out, at = [], 0
    for w in words:
        end = at + w.shape[0]
        out.append(jnp.stack([jnp.stack(_sum_all((low[at:end], high[at:end]))) for low, high in both]))
        at = end
    return jnp.stack(out)


#: One compiled program for each list of shapes.
_lanes: Any = jax.jit(_reduce)


def lanes(arrays: Sequence[Any]) -> List[Lanes]:
    """Fingerprints of arrays, one small copy for each group of devices."""
    found: List[Lanes] = [(0, 0)] * len(arrays)
    groups: Dict[Any, List[int]] = {}
    for i, array in enumerate(arrays):
        groups.setdefault(tuple(sorted(d.id for d in array.devices())), []).append(i)
    for members in groups.values():
        values = np.asarray(_lanes([arrays[i] for i in members])).tolist()
        for i, pair in zip(members, values):
            term = length_term(arrays[i].size * np.dtype(arrays[i].dtype).itemsize)
            found[i] = (_whole(pair[0], term), _whole(pair[1], term))
    return found


def _whole(pair: Sequence[int], term: int) -> int:
    return ((pair[0] | pair[1] << 32) + term) & MASK
