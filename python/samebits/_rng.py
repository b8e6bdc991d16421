"""States of the random number generators that a program may draw from, read without drawing.

Only generators of libraries that the program has loaded, and of GPUs that it has started, are named.
"""

from __future__ import annotations

import struct
import sys
from array import array
from typing import Any, List

from ._leaves import Leaf, generator_state


def _python() -> Leaf:
    """Mersenne Twister: 624 words and the position, then whether a normal number is kept, then that number."""
    import random

    _, words, kept = random.getstate()
    gauss = struct.unpack("<2I", struct.pack("<d", kept if kept is not None else 0.0))
    state = array("I", [*words, int(kept is not None), *gauss])
    return Leaf("rng.python", "host", state.tobytes(), "u32", (len(state),))


def _numpy(numpy: Any) -> Leaf:
    """The legacy global state, whichever bit generator it stands on."""
    state = generator_state(numpy.random.mtrand._rand) or b""
    return Leaf("rng.numpy", "host", state, "u8", (len(state),))


def _torch(torch: Any) -> List[Leaf]:
    states = [("rng.torch", torch.get_rng_state())]
    if torch.cuda.is_initialized():
        states += [(f"rng.cuda.{n}", torch.cuda.get_rng_state(n)) for n in range(torch.cuda.device_count())]
    return [Leaf(name, "torch", state, "u8", tuple(state.shape)) for name, state in states]


def states() -> List[Leaf]:
    """All that this program has loaded."""
    found = [_python()] if "random" in sys.modules else []
    if "numpy.random" in sys.modules:
        found.append(_numpy(sys.modules["numpy"]))
    if hasattr(sys.modules.get("torch"), "get_rng_state"):
        found += _torch(sys.modules["torch"])
    return found
