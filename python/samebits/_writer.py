"""The trace file: chained lines under `NAME.part`, each handed to the system, and the name only when closed."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, Dict, Mapping

from ._error import RecordError

SCHEMA = "samebits-trace/1"
#: Longest line that readers take.
LINE_LIMIT = 64 << 20


class Writer:
    """One trace being written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.part = path.with_name(path.name + ".part")
        self.records = 0
        self._chain = hashlib.sha256(SCHEMA.encode()).digest()
        path.parent.mkdir(parents=True, exist_ok=True)
        # Opened without cutting it, so that the part of a run that still writes is not lost.
        self._file = os.fdopen(os.open(self.part, os.O_RDWR | os.O_CREAT, 0o666), "wb", buffering=0)
        try:
            self._lock()
        except OSError as cause:
            self._file.close()
            raise RecordError(f"another run is writing {self.part}; give each run its own path") from cause
        self._file.truncate(0)

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:
            return
        fcntl.flock(self._file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)

    def write(self, record: Mapping[str, Any]) -> None:
        """Writes one record, so that a killed run leaves a readable prefix."""
        text = json.dumps(record, separators=(",", ":"), ensure_ascii=False, allow_nan=False)[:-1].encode()
        chain = hashlib.sha256(self._chain + text).digest()
        line = text + f',"chain":"{chain.hex()}"}}\n'.encode()
        if len(line) > LINE_LIMIT:
            raise RecordError(f"a record of {len(line)} bytes; readers take {LINE_LIMIT}: bound it by include or exclude")
        written = 0
        while written < len(line):
            written += self._file.write(line[written:]) or 0
        # A record that was refused is not part of the chain.
        self._chain = chain
        self.records += 1

    def finish(self) -> None:
        """Syncs and renames."""
        os.fsync(self._file.fileno())
        self._file.close()
        os.replace(self.part, self.path)
        try:
            folder = os.open(self.path.parent, os.O_RDONLY)
        except OSError:
            return  # a system on which folders cannot be opened, and so not synced
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def abandon(self) -> None:
        """Leaves the part as it is: readers will call it cut."""
        self._file.close()


def root(digests: Mapping[str, str]) -> str:
    """Root of named digests in their order: name length (u64, little-endian), name, digest."""
    hasher = hashlib.sha256()
    for name, digest in digests.items():
        encoded = name.encode()
        hasher.update(len(encoded).to_bytes(8, "little") + encoded + bytes.fromhex(digest))
    return hasher.hexdigest()


def declaration(name: str, dtype: str, shape: Any) -> Dict[str, Any]:
    """A tensor as `open` declares it."""
    return {"name": name, "dtype": dtype, "shape": list(shape), "coverage": "full"}
