"""The identity of a run, and what of its surroundings may be written down (the rules of src/trace/privacy.rs)."""

from __future__ import annotations

import os
import platform
import re
import sys
from typing import Any, Callable, Dict, List, Mapping, Tuple

EXACT = ("NVIDIA_TF32_OVERRIDE", "PYTHONHASHSEED", "LD_LIBRARY_PATH", "SAMEBITS_SIMD")
PREFIXES = ("CUDA_", "CUBLAS", "NCCL_", "OMP_", "MKL_", "RAYON_")
SECRET = ("TOKEN", "KEY", "SECRET", "PASSWORD", "CREDENTIAL")


def is_secret(name: str) -> bool:
    """True for a name whose value must never be written."""
    return any(word in name.upper() for word in SECRET)


def is_allowed(name: str) -> bool:
    """True for an environment variable that a trace may record."""
    return not is_secret(name) and (name in EXACT or name.startswith(PREFIXES))


class Mask:
    """Takes secrets, and the names of this place and its user, out of text."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        secrets = [v for n, v in environment.items() if is_secret(n) and len(v) >= 4]
        self._places: List[Tuple[str, str]] = [(s, "<masked>") for s in sorted(secrets, key=len, reverse=True)]
        home, host = environment.get("HOME", ""), platform.node()
        user = environment.get("USER") or environment.get("LOGNAME") or ""
        if len(home) > 1:
            self._places.append((home, "<home>"))
        if len(host) >= 4 and host != "localhost":
            self._places.append((host, "<host>"))
        # Names as short or as common as `root` would be masked inside other words.
        if len(user) >= 4 and user != "root":
            self._places.append((user, "<user>"))

    def apply(self, text: str) -> str:
        """The text with secrets, places and the values of secret-looking `name=value` and `--name value` masked."""
        for value, name in self._places:
            text = text.replace(value, name)
        return _mask_pairs(text)

    def tree(self, value: Any, name: str = "") -> Any:
        """The same for every text in a JSON value; one under a secret-looking name is masked whole."""
        if isinstance(value, str):
            return "<masked>" if is_secret(name) and value else self.apply(value)
        if isinstance(value, Mapping):
            return {self.apply(str(k)): self.tree(v, str(k)) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.tree(v, name) for v in value]
        return value


def _mask_pairs(text: str) -> str:
    out, hide_next = [], False
    for word in re.split(r"(\s+)", text):
        name, equals, value = word.partition("=")
        if not word.strip():
            out.append(word)
        elif hide_next:
            out.append("<masked>")
            hide_next = False
        elif equals:
            out.append(f"{name}=<masked>" if is_secret(name) and value else word)
        else:
            hide_next = word.startswith("--") and is_secret(word)
            out.append(word)
    return "".join(out)


def _of(found: Dict[str, str], name: str, read: Callable[[], Any]) -> None:
    """Notes what can be read; a library too old to have it is no reason to stop a training run."""
    try:
        value = read()
    except (AttributeError, RuntimeError):
        return
    if value is not None:
        found[name] = str(value)


def _torch(torch: Any, keyed: Dict[str, str], noted: Dict[str, str]) -> None:
    _of(keyed, "torch", lambda: torch.__version__)
    _of(noted, "torch.threads", lambda: torch.get_num_threads())
    _of(noted, "torch.deterministic_algorithms", lambda: torch.are_deterministic_algorithms_enabled())
    _of(noted, "torch.cudnn.benchmark", lambda: torch.backends.cudnn.benchmark)
    if torch.cuda.is_initialized():
        _of(keyed, "cuda", lambda: torch.version.cuda)
        _of(keyed, "gpu", lambda: torch.cuda.get_device_name(torch.cuda.current_device()))


def _cpu_model() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration, IndexError):
        return platform.processor() or "unavailable"


def identity(mask: Mask, version: str) -> Dict[str, Dict[str, str]]:
    """Keyed: versions of the frameworks loaded, the GPU in use. Noted: the rest of what may be written."""
    keyed: Dict[str, str] = {}
    for name in ("numpy", "jax"):
        if name in sys.modules:
            _of(keyed, name, lambda: sys.modules[name].__version__)
    noted = {
        "samebits-python": version,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "os": platform.system().lower(),
        "arch": platform.machine(),
        "cpu": _cpu_model(),
        "argv": " ".join(sys.argv),
    }
    if hasattr(sys.modules.get("torch"), "get_rng_state"):
        _torch(sys.modules["torch"], keyed, noted)
    noted.update((f"env.{n}", v) for n, v in sorted(os.environ.items()) if is_allowed(n))
    clean = {name: _printable(mask.apply(value)) for name, value in noted.items()}
    return {"keyed": keyed, "noted": clean}


def _printable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
