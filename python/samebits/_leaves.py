"""Named leaves: what a model, an optimizer or a dict of tensors is made of, whatever library made it.

A library is imported only when a value is its own, which means that the program has loaded it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import struct
import sys
from array import array as native_array
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from . import _fingerprint
from ._error import RecordError
from ._fingerprint import Lanes


@dataclasses.dataclass
class Leaf:
    """A tensor as it is recorded: `family` says which library reduces it."""

    name: str
    family: str
    value: Any
    dtype: str
    shape: Tuple[int, ...]

    def sha256(self) -> str:
        """Of its raw little-endian row-major bytes."""
        if self.family == "host":
            return hashlib.sha256(self.value).hexdigest()
        return str(_backend(self.family).sha256(self.value))


def _backend(family: str) -> Any:
    if family == "torch":
        from . import _torch as backend
    elif family == "numpy":
        from . import _numpy as backend  # type: ignore[no-redef]
    else:
        from . import _jax as backend  # type: ignore[no-redef]
    return backend


def _loaded(name: str) -> bool:
    return name in sys.modules


def _family(value: Any) -> Optional[str]:
    if _loaded("torch") and _backend("torch").is_tensor(value):
        return "torch"
    if _loaded("numpy"):
        import numpy

        if isinstance(value, (numpy.ndarray, numpy.generic)):
            return "numpy"
    if _loaded("jax") and _backend("jax").is_array(value):
        return "jax"
    return None


_NATIVE = {"b": "i8", "B": "u8", "h": "i16", "H": "u16", "i": "i32", "I": "u32", "q": "i64", "Q": "u64", "f": "f32", "d": "f64"}


def _host(name: str, value: Any) -> Optional[Leaf]:
    """A number as a tensor of shape [], bytes and `array.array` as flat tensors."""
    if isinstance(value, bool):
        return Leaf(name, "host", bytes([value]), "bool", ())
    if isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 63:
            raise RecordError(f"{name}: the integer {value} does not fit into 64 bits; pass it as bytes")
        return Leaf(name, "host", struct.pack("<q", value), "i64", ())
    if isinstance(value, float):
        return Leaf(name, "host", struct.pack("<d", value), "f64", ())
    if isinstance(value, (bytes, bytearray)):
        return Leaf(name, "host", bytes(value), "u8", (len(value),))
    if isinstance(value, native_array) and value.typecode in _NATIVE:
        return Leaf(name, "host", value.tobytes(), _NATIVE[value.typecode], (len(value),))
    return None


def leaf(name: str, value: Any) -> Optional[Leaf]:
    """The leaf that a value is; None if it is a container or no tensor."""
    host = _host(name, value)
    family = None if host else _family(value)
    if family is None:
        return host
    if _is_key(value):
        value = _backend("jax").key_data(value)
    dtype, shape = _backend(family).describe(name, value)
    return Leaf(name, family, value, dtype, shape)


def generator_state(value: Any) -> Any:
    """The state of a generator object, of a length that does not change, without drawing; None for anything else."""
    if _loaded("random"):
        import random

        if isinstance(value, random.Random) and not isinstance(value, random.SystemRandom):
            return python_state(value.getstate())
    if _loaded("numpy"):
        import numpy

        if isinstance(value, numpy.random.Generator):
            return fixed(value.bit_generator.state)
        if isinstance(value, numpy.random.BitGenerator):
            return fixed(value.state)
        if isinstance(value, numpy.random.RandomState):
            return fixed(value.get_state(legacy=False))
    if _loaded("torch"):
        import torch

        if isinstance(value, torch.Generator):
            return value.get_state()
    return None


def python_state(state: Any) -> native_array[int]:
    """Mersenne Twister: 624 words and the position, then whether a normal number is kept, then that number."""
    _, words, kept = state
    gauss = struct.unpack("<2I", struct.pack("<d", kept if kept is not None else 0.0))
    return native_array("I", [*words, int(kept is not None), *gauss])


def fixed(state: Any) -> bytes:
    """NumPy's dict of a state as bytes: keys in order, integers in 32 bytes each."""
    return b"".join(_parts(state))


def _parts(state: Any) -> Iterator[bytes]:
    if isinstance(state, Mapping):
        for key in sorted(state):
            yield from _parts(state[key])
    elif isinstance(state, str):
        yield state.encode()
    elif isinstance(state, float):
        yield struct.pack("<d", state)
    elif hasattr(state, "tobytes"):
        yield state.tobytes()
    else:
        yield int(state).to_bytes(32, "little")


def _is_key(value: Any) -> bool:
    """True for typed random keys of JAX."""
    return _loaded("jax") and bool(_backend("jax").is_array(value)) and bool(_backend("jax").is_key(value))


class Walk:
    """Collects the leaves of containers, and what could not be recorded."""

    def __init__(self, wants: Any) -> None:
        self._wants = wants
        self.leaves: List[Leaf] = []
        #: Names and types of values that are no tensors, which a trace says once.
        self.left_out: List[str] = []

    def add(self, name: str, value: Any) -> None:
        """Adds a value and all that it holds, under dotted names."""
        if value is None:
            return
        children = _children(value)
        if children is not None:
            for key, child in children:
                self.add(f"{name}.{key}" if name else str(key), child)
            return
        state = generator_state(value)
        if (state is not None or _is_key(value)) and not name.startswith("rng."):
            name = f"rng.{name}"
        if not self._wants(name):
            return
        value = value if state is None else state
        found = leaf(name, value)
        if found is not None:
            self.leaves.append(found)
        elif isinstance(value, (str, type)) or callable(value):
            self.left_out.append(f"{name} ({type(value).__name__})")
        else:
            self._tree(name, value)

    def _tree(self, name: str, value: Any) -> None:
        """A container that only JAX knows (a registered class), else one that nobody knows."""
        if _loaded("jax"):
            import jax

            paths = jax.tree_util.tree_flatten_with_path(value)[0]
            if len(paths) != 1 or paths[0][1] is not value:
                for path, child in paths:
                    self.add(".".join([name, *map(_key_text, path)]), child)
                return
        raise RecordError(
            f"{name}: found a {type(value).__module__}.{type(value).__qualname__}, expected a tensor of NumPy, PyTorch "
            "or JAX, a number, bytes, a generator of NumPy, or a dict, list or dataclass of them; convert it, or leave "
            "it out (exclude)"
        )


def _key_text(key: Any) -> str:
    for attribute in ("key", "name", "idx"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def _children(value: Any) -> Optional[List[Tuple[Any, Any]]]:
    """Names and values inside a container, in its order; None for anything else."""
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return list(zip(value._fields, value))
    if isinstance(value, (list, tuple)):
        return list(enumerate(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)]
    return None


def of_model(model: Any) -> Any:
    """What a model holds: its state_dict() if it has one, else itself."""
    state_dict = getattr(model, "state_dict", None)
    return state_dict() if callable(state_dict) and not isinstance(model, Mapping) else model


def of_optimizer(optimizer: Any) -> Any:
    """What an optimizer holds, by parameter index, or by name where its groups know them."""
    state = of_model(optimizer)
    if not (isinstance(state, Mapping) and "state" in state and "param_groups" in state):
        return state
    names: Dict[Any, Any] = {}
    for group in state["param_groups"]:
        names.update(zip(group.get("params", ()), group.get("param_names") or group.get("params", ())))
    return {names.get(key, key): value for key, value in state["state"].items()}


def metric_bits(metrics: Mapping[str, Any]) -> Tuple[Dict[str, Optional[int]], List[Tuple[str, Any]]]:
    """Metrics as bits of binary64; those that are PyTorch tensors on a device are left for the common copy."""
    bits: Dict[str, Optional[int]] = {}
    waiting: List[Tuple[str, Any]] = []
    for name, value in metrics.items():
        if _family(value) == "torch" and value.numel() == 1 and not value.is_complex() and value.device.type != "mps":
            bits[name] = None
            waiting.append((name, value))
            continue
        try:
            bits[name] = struct.unpack("<Q", struct.pack("<d", float(value)))[0]
        except (TypeError, ValueError, OverflowError) as cause:
            raise RecordError(
                f"metric {name}: found {type(value).__name__} ({cause}), expected a number or a tensor of one element; "
                "a tensor of several belongs into tensors={...}"
            ) from cause
    return bits, waiting


def reduce(leaves: Sequence[Leaf], waiting: Sequence[Tuple[str, Any]]) -> Tuple[List[Lanes], List[int]]:
    """Fingerprints of leaves in their order, and the bits of waiting metrics."""
    found: List[Lanes] = [(0, 0)] * len(leaves)
    places: Dict[str, List[int]] = {}
    for i, item in enumerate(leaves):
        places.setdefault(item.family, []).append(i)
    bits: List[int] = []
    if "torch" in places or waiting:
        backend = _backend("torch")
        flat = [backend.flat(leaves[i].value) for i in places.get("torch", ())]
        lanes, bits = backend.lanes(flat, [value for _, value in waiting])
        _put(found, places.get("torch", ()), lanes)
    if "numpy" in places:
        backend = _backend("numpy")
        _put(found, places["numpy"], backend.lanes([backend.flat(leaves[i].value) for i in places["numpy"]]))
    if "jax" in places:
        _put(found, places["jax"], _backend("jax").lanes([leaves[i].value for i in places["jax"]]))
    if "host" in places:
        _put(found, places["host"], _fingerprint.of_many([leaves[i].value for i in places["host"]]))
    return found, bits


def _put(found: List[Lanes], places: Sequence[int], lanes: Sequence[Lanes]) -> None:
    for i, value in zip(places, lanes):
        found[i] = value
