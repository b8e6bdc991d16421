"""States of the random number generators that a program may draw from, read without drawing.

Only generators of libraries that the program has loaded, and of GPUs that it has started, are named.
"""

from __future__ import annotations

import sys
from typing import Any, Iterator, List, Tuple

from ._leaves import Leaf, fixed, leaf, python_state


def _values() -> Iterator[Tuple[str, Any]]:
    if "random" in sys.modules:
        yield "rng.python", python_state(sys.modules["random"].getstate())
    if "numpy.random" in sys.modules:
        yield "rng.numpy", fixed(sys.modules["numpy.random"].get_state(legacy=False))
    torch: Any = sys.modules.get("torch")
    if hasattr(torch, "get_rng_state"):
        yield "rng.torch", torch.get_rng_state()
        if torch.cuda.is_initialized():
            for n in range(torch.cuda.device_count()):
                yield f"rng.cuda.{n}", torch.cuda.get_rng_state(n)


def states() -> List[Leaf]:
    """All that this program has loaded."""
    found = [leaf(name, value) for name, value in _values()]
    return [one for one in found if one is not None]
