"""The recorder: what a training script calls, turned into the records of docs/trace.md."""

from __future__ import annotations

import fnmatch
import functools
import json
import operator
import os
import struct
import sys
import threading
import unicodedata
from types import TracebackType
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple, Type, TypeVar, Union, cast

from . import _fingerprint, _settings
from ._error import RecordError
from ._identity import Mask, identity
from ._leaves import Leaf, Walk, metric_bits, of_model, of_optimizer, reduce
from ._rng import Generators
from ._version import version
from ._writer import SCHEMA, Writer, declaration, root

SETTINGS_LIMIT = 1 << 20
OP_NOTE = "level op was asked for and tensor is recorded: a Python recorder does not see single operations"

PathLike = Union[str, "os.PathLike[str]"]


class _Given(NamedTuple):
    """What a call named. Kept as it is, so that the digests at close are of what training left in it."""

    model: Any = None
    optimizer: Any = None
    tensors: Optional[Mapping[str, Any]] = None


class _Digests(NamedTuple):
    """One state of the run, reduced."""

    fp: Dict[str, str]
    sha256: Dict[str, str]
    metrics: Dict[str, Dict[str, Any]]


_Method = TypeVar("_Method", bound=Callable[..., Any])


def _one_at_a_time(method: _Method) -> _Method:
    """Threads take turns, since each record is chained to the one before."""

    @functools.wraps(method)
    def locked(self: "Recorder", *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            return method(self, *args, **kwargs)

    return cast(_Method, locked)


class Recorder:
    """Writes one trace. Made by `record`; a context manager, or closed by `close`."""

    def __init__(
        self,
        path: Optional[PathLike],
        level: Optional[str],
        every: int,
        include: Optional[Iterable[str]],
        exclude: Optional[Iterable[str]],
        seed: Optional[int],
        engine: Optional[str],
        settings: Any,
        rng: bool,
    ) -> None:
        if sys.byteorder != "little":
            raise RecordError("this machine is big-endian; traces hold little-endian bytes, and none is recorded here")
        if not isinstance(every, int) or every < 1:
            raise RecordError(f"every is {every!r}, expected a whole number from 1 (record every n-th step)")
        self._lock, self._process = threading.RLock(), os.getpid()
        self._asked = _settings.resolved_level(level)
        self._level = "tensor" if self._asked == "op" else self._asked
        self._every = every
        self._include, self._exclude = _patterns("include", include), _patterns("exclude", exclude)
        self._mask = Mask(os.environ)
        self._rank, world = _settings.rank_and_world(os.environ)
        self._open = {
            "kind": "open",
            "schema": SCHEMA,
            "rank": self._rank,
            "world_size": world,
            "engine": self._text(engine or f"samebits-python {version()}"),
            "level": self._level,
        }
        seed = _settings.resolved_seed(seed)
        if seed is not None:
            self._open["seed"] = seed
        self._settings = self._checked_settings(settings)
        self._generators = Generators() if rng else None
        self._path, self._tell = _settings.resolved_path(path, self._rank, world)
        self._writer = Writer(self._path)
        self._closed = False
        self._declared: Optional[Dict[str, Tuple[str, Tuple[int, ...]]]] = None
        self._early: List[Dict[str, Any]] = []
        self._told: List[str] = []
        self._given = _Given()
        self._step: Optional[int] = None
        self._evaluations = 0
        self._last_eval: Optional[Dict[str, str]] = None
        if self._asked == "op":
            self.event("level", OP_NOTE)

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        left_well = isinstance(error, SystemExit) and error.code in (None, 0)
        if kind is None or left_well:
            self.close()
        elif not self._closed:
            # The part stays as it is, without a closing record, so that readers call the run cut.
            self._closed = True
            self._writer.abandon()

    @_one_at_a_time
    def step(
        self,
        model: Any = None,
        optimizer: Any = None,
        tensors: Optional[Mapping[str, Any]] = None,
        metrics: Optional[Mapping[str, Any]] = None,
        *,
        step: Optional[int] = None,
        sha256: bool = False,
    ) -> None:
        """After an update: records the state if it is an every-th step (or its SHA-256 is asked for)."""
        self._alive("step")
        self._given = _Given(model, optimizer, _named("tensors", tensors))
        self._step = self._next_step(step)
        if self._level == "off":
            self._declare(self._leaves())
        elif sha256 or self._step % self._every == 0:
            place = {"kind": "step", "rank": self._rank, "step": self._step}
            self._body(place, metrics, sha256 or self._level == "tensor")
            self._last_eval = None

    @_one_at_a_time
    def eval(
        self,
        metrics: Optional[Mapping[str, Any]] = None,
        model: Any = None,
        optimizer: Any = None,
        tensors: Optional[Mapping[str, Any]] = None,
    ) -> None:
        """After an evaluation: records SHA-256 too. What is left out is what the last step was given."""
        self._alive("eval")
        last = self._given
        self._given = _Given(
            last.model if model is None else model,
            last.optimizer if optimizer is None else optimizer,
            last.tensors if tensors is None else _named("tensors", tensors),
        )
        number, self._evaluations = self._evaluations, self._evaluations + 1
        if self._level == "off":
            self._declare(self._leaves())
            return
        self._last_eval = self._body({"kind": "eval", **self._place(), "eval": number}, metrics, True).sha256

    @_one_at_a_time
    def event(self, name: str, detail: str = "") -> None:
        """Something that happened: a fallback, a checkpoint, a change of the learning rate."""
        self._alive("event")
        record = {"kind": "event", **self._place(), "name": self._text(_checked_name("event", name))}
        record["detail"] = self._text(str(detail))
        # `open` declares the tensors and comes first, so what happens before the first step waits for it.
        if self._declared is None:
            self._early.append(record)
        else:
            self._writer.write(record)

    @_one_at_a_time
    def close(self) -> None:
        """Writes the final SHA-256s and gives the file its name. A second call does nothing."""
        if self._closed or os.getpid() != self._process:
            return  # a forked process does not end its parent's trace
        leaves = self._leaves()
        self._declare(leaves)
        digests = {leaf.name: leaf.sha256() for leaf in leaves}
        still = self._generators.still() if self._generators else []
        if still:
            self.event("left-out", "generators that did not move while this was recorded: " + ", ".join(still))
        at_eval = self._last_eval
        if at_eval is not None and any(at_eval.get(name, digest) != digest for name, digest in digests.items()):
            # The state moved on since the last record, which was an evaluation; readers want a record of it.
            self._body({"kind": "step", **self._place(), "phase": "close"}, None, True)
        close = {"kind": "close", "rank": self._rank, "records": self._writer.records, "status": "complete"}
        self._writer.write({**close, "sha256": digests, "root": root(digests)})
        self._writer.finish()
        self._closed = True
        if self._tell:
            print(f"samebits: trace {self._path}", file=sys.stderr)

    @property
    def path(self) -> str:
        """The trace's file once it is closed."""
        return str(self._path)

    def _alive(self, what: str) -> None:
        if os.getpid() != self._process:
            raise RecordError(
                f"{what}() in a process forked after record() was called; record there under a path of its own"
            )
        if self._closed:
            raise RecordError(f"{what}() after the trace {self._path} was closed; call it inside the `with` block")

    def _text(self, text: str) -> str:
        return self._mask.apply(text).encode("utf-8", "replace").decode("utf-8")

    def _place(self) -> Dict[str, Any]:
        return {"rank": self._rank} if self._step is None else {"rank": self._rank, "step": self._step}

    def _next_step(self, given: Optional[int]) -> int:
        last = -1 if self._step is None else self._step
        if given is None:
            return last + 1
        try:
            step = operator.index(given)
        except TypeError as cause:
            raise RecordError(f"step {given!r} is no whole number") from cause
        if step >= 2**64:
            raise RecordError(f"step {step} is too large; readers take numbers below 2^64")
        if step <= last:
            raise RecordError(f"step {step} comes after step {last}; steps must ascend, so leave `step` out or count up")
        return step

    def _checked_settings(self, settings: Any) -> Any:
        clean = self._mask.tree(settings)
        try:
            size = len(json.dumps(clean, ensure_ascii=False, allow_nan=False).encode())
        except (TypeError, ValueError) as cause:
            raise RecordError(f"settings are not JSON ({cause}); pass numbers, texts, lists and dicts") from cause
        if size > SETTINGS_LIMIT:
            raise RecordError(f"settings of {size} bytes as JSON; at most {SETTINGS_LIMIT} are read")
        return clean

    def _wants(self, name: str) -> bool:
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in self._exclude):
            return False
        included = self._include is _ALL or name.startswith("rng.")
        return included or any(fnmatch.fnmatchcase(name, pattern) for pattern in self._include)

    def _leaves(self) -> List[Leaf]:
        """All named leaves of what was given last, in order."""
        walk = Walk(self._wants)
        # Causes before effects, since a comparison names the first that differs: generators, data, model, optimizer.
        walk.add("", self._given.tensors)
        walk.add("model", of_model(self._given.model))
        walk.add("optimizer", of_optimizer(self._given.optimizer))
        leaves = walk.leaves
        if self._generators:
            leaves = [leaf for leaf in self._generators.states() if self._wants(leaf.name)] + leaves
        leaves = sorted(leaves, key=lambda leaf: not leaf.name.startswith("rng."))
        seen: Dict[str, Leaf] = {}
        known = self._declared or {}
        for leaf in leaves:
            if leaf.name not in known:
                _checked_name("tensor", leaf.name)
            if seen.setdefault(leaf.name, leaf) is not leaf:
                raise RecordError(f"two tensors are named {leaf.name!r}; give one of them another name")
        self._tell_left_out(walk.left_out)
        return leaves

    def _tell_left_out(self, names: List[str]) -> None:
        new = [name for name in names if name not in self._told]
        if new:
            self._told += new
            self.event("left-out", "no tensors or numbers: " + ", ".join(new))

    def _declare(self, leaves: List[Leaf]) -> None:
        """Writes `open` at the first call; later, new names as an event, and refuses a name that changed."""
        if self._declared is None:
            tensors, forms = self._new(leaves)
            bounds = {"recorded.every": str(self._every), "recorded.rng": str(self._generators is not None).lower()}
            bounds["recorded.include"] = " ".join(self._include)
            bounds["recorded.exclude"] = " ".join(self._exclude)
            about = identity(self._mask, version())
            about["noted"].update((name, text) for name, text in bounds.items() if text)
            self._writer.write({**self._open, "identity": about, "settings": self._settings, "tensors": tensors})
            self._declared = forms
            for event in self._early:
                self._writer.write(event)
            return
        tensors, forms = self._new(leaves)
        if tensors:
            self._writer.write({"kind": "event", **self._place(), "name": "declare", "tensors": tensors})
            self._declared.update(forms)

    def _new(self, leaves: List[Leaf]) -> Tuple[List[Dict[str, Any]], Dict[str, Any]]:
        """Declarations of new names, and their forms: they count once they are written."""
        declared = self._declared if self._declared is not None else {}
        fresh: List[Dict[str, Any]] = []
        forms: Dict[str, Any] = {}
        for leaf in leaves:
            form = (leaf.dtype, leaf.shape)
            before = declared.get(leaf.name)
            if before is None:
                fresh.append(declaration(leaf.name, *form))
                forms[leaf.name] = form
            elif before != form:
                texts = [f"{dtype}{list(shape)}" for dtype, shape in (before, form)]
                raise RecordError(
                    f"{leaf.name}: declared as {texts[0]}, now {texts[1]}; a tensor keeps its type and shape through a "
                    "trace: give the new one another name, or leave it out (exclude)"
                )
        return fresh, forms

    def _body(self, place: Dict[str, Any], metrics: Optional[Mapping[str, Any]], sha256: bool) -> _Digests:
        leaves = self._leaves()
        if not leaves:
            raise RecordError(
                "nothing to record: no tensor was given, and no generator has moved; pass model=, optimizer= or "
                "tensors={...}, or look at include and exclude"
            )
        numbers = _named("metrics", metrics) or {}
        bits, waiting = metric_bits({_checked_name("metric", name): x for name, x in numbers.items()})
        lanes, found = reduce(leaves, waiting)
        bits.update(zip((name for name, _ in waiting), found))
        self._declare(leaves)
        digests = _Digests(
            {leaf.name: _fingerprint.text(two) for leaf, two in zip(leaves, lanes)},
            {leaf.name: leaf.sha256() for leaf in leaves} if sha256 else {},
            {name: _number(value or 0) for name, value in bits.items()},
        )
        parts = {name: part for name, part in digests._asdict().items() if part}
        self._writer.write({**place, **parts})
        return digests


def _number(bits: int) -> Dict[str, Any]:
    """A metric: its bits, and its value for people when it is finite."""
    value = struct.unpack("<d", struct.pack("<Q", bits))[0]
    finite = value == value and abs(value) != float("inf")
    return {"value": value if finite else None, "bits": f"{bits:016x}"}


#: Everything; told from a pattern of that meaning, so that nothing is matched at each step.
_ALL: Tuple[str, ...] = ()


def _patterns(what: str, given: Optional[Iterable[str]]) -> Tuple[str, ...]:
    if given is None:
        return _ALL
    patterns = (given,) if isinstance(given, str) else tuple(given)
    if not all(isinstance(p, str) and p for p in patterns) or (what == "include" and not patterns):
        raise RecordError(f"{what} is {given!r}, expected patterns of tensor names such as ['model.*']")
    return patterns


def _named(what: str, given: Optional[Mapping[str, Any]]) -> Optional[Mapping[str, Any]]:
    if given is not None and not isinstance(given, Mapping):
        raise RecordError(f"{what} is a {type(given).__name__}, expected a dict of names and values")
    return given


def _checked_name(what: str, name: Any) -> str:
    """A name as readers take it."""
    if not isinstance(name, str) or not name or any(unicodedata.category(c) in ("Cc", "Cs") for c in name):
        raise RecordError(f"the {what} name {name!r} is empty, no text, or has control characters; give it another")
    return name


def record(
    path: Optional[PathLike] = None,
    level: Optional[str] = None,
    every: int = 1,
    include: Optional[Iterable[str]] = None,
    exclude: Optional[Iterable[str]] = None,
    seed: Optional[int] = None,
    engine: Optional[str] = None,
    settings: Any = None,
    rng: bool = True,
) -> Recorder:
    """Starts a trace of this run; arguments win over the environment that `samebits` sets.

    path: the file (of rank 0; other ranks write `rank-R.jsonl` beside it). level: off, step, tensor. every: record
    every n-th step. include, exclude: patterns of tensor names (include does not concern `rng.*`). seed, engine,
    settings: told in the trace. rng: record the states of the random number generators that move meanwhile.
    """
    return Recorder(path, level, every, include, exclude, seed, engine, settings, rng)
