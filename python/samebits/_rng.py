"""States of the random number generators that a program may draw from, read without drawing.

Only generators of libraries that the program has loaded, and of GPUs that it has started, are looked at, and only those
that moved since the recording began are recorded: one that was never seeded starts anywhere, so its state differs
between runs that are equal because nobody draws from it.
"""

from __future__ import annotations

import sys
from typing import Any, Dict, Iterator, List, Set, Tuple

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


class Generators:
    """The generators of this process, since the recording began."""

    def __init__(self) -> None:
        self._still: Dict[str, str] = {}
        self._moved: Set[str] = set()
        self.states()

    def states(self) -> List[Leaf]:
        """States of all that have moved so far."""
        found = []
        for one in (leaf(name, value) for name, value in _values()):
            if one is not None and (one.name in self._moved or self._moves(one)):
                found.append(one)
        return found

    def _moves(self, one: Leaf) -> bool:
        digest = one.sha256()
        if self._still.setdefault(one.name, digest) == digest:
            return False
        del self._still[one.name]
        self._moved.add(one.name)
        return True

    def still(self) -> List[str]:
        """Names of those that have not moved."""
        return list(self._still)
