"""Where a trace goes and what it holds: arguments first, then the environment that `samebits` sets for an engine."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Mapping, Optional, Tuple, Union

from ._error import RecordError

LEVELS = ("off", "step", "tensor", "op")


def _number(text: str, what: str, most: int) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > most:
        raise RecordError(f"{what} is {text!r}, expected a decimal number from 0 to {most}")
    return int(text)


def seed(default: int = 0) -> int:
    """The seed that `samebits` asks for (SAMEBITS_SEED), else the default."""
    text = os.environ.get("SAMEBITS_SEED")
    return default if text is None else _number(text, "SAMEBITS_SEED", (1 << 64) - 1)


def resolved_seed(given: Optional[int]) -> Optional[int]:
    """The seed to record: the argument, else the environment's, else none."""
    if given is None:
        return seed() if "SAMEBITS_SEED" in os.environ else None
    return _number(str(int(given)), "seed", (1 << 64) - 1)


def resolved_level(given: Optional[str]) -> str:
    """The level asked for."""
    level = given if given is not None else os.environ.get("SAMEBITS_LEVEL", "step")
    if level not in LEVELS:
        where = "level" if given is not None else "SAMEBITS_LEVEL"
        raise RecordError(f"{where} is {level!r}, expected one of: {', '.join(LEVELS)}")
    return level


def rank_and_world(environment: Mapping[str, str]) -> Tuple[int, int]:
    """RANK and WORLD_SIZE as torchrun sets them; 0 of 1 without them."""
    limit = (1 << 32) - 1
    world = _number(environment.get("WORLD_SIZE", "1"), "WORLD_SIZE", limit)
    if world <= 1:
        return 0, 1
    if "RANK" not in environment:
        raise RecordError(f"WORLD_SIZE is {world}, but RANK is not set; start each process with both, as torchrun does")
    rank = _number(environment["RANK"], "RANK", limit)
    if rank >= world:
        raise RecordError(f"RANK is {rank}, expected less than WORLD_SIZE, which is {world}")
    return rank, world


def resolved_path(given: Union[str, "os.PathLike[str]", None], rank: int, world: int) -> Tuple[Path, bool]:
    """The file of this rank, and whether it is a default that must be told."""
    named = given if given is not None else os.environ.get("SAMEBITS_TRACE")
    if named is None:
        return _default_folder(world) / f"rank-{rank}.jsonl", True
    path = Path(named)
    if path.suffix == ".zst":
        raise RecordError(f"{path}: this recorder writes plain files; name it .jsonl (and compress it with zstd after)")
    if not path.name or path.is_dir():
        raise RecordError(f"the trace path {str(named)!r} is a folder or empty; expected a file such as rank-0.jsonl")
    path = path.with_name(f"rank-{rank}.jsonl") if rank else path
    if path.exists() and not path.is_file():
        raise RecordError(f"{path}: neither a regular file nor free to be one; a device or a pipe is not replaced")
    return path, False


def _default_folder(world: int) -> Path:
    """A folder of this run; the ranks of one run, started by one process, share it."""
    stem = Path(sys.argv[0]).stem if sys.argv and sys.argv[0] not in ("", "-", "-c", "-m") else "python"
    run = f"ranks-{os.getppid()}" if world > 1 else f"{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}"
    return Path(os.environ.get("SAMEBITS_DIR") or ".samebits") / "traces" / f"{stem}-{run}"
