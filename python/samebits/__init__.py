"""Records what a training run computes, so that `samebits diff` can say where two runs part.

    import samebits

    with samebits.record() as r:
        for x, y in batches:
            ...
            r.step(model=model, optimizer=optimizer, metrics={"loss": loss})
        r.eval(metrics={"accuracy": accuracy})

Recording changes no bit of the training: it draws no random number, sets no mode and adds nothing to autograd.
"""

from ._error import RecordError
from ._recorder import Recorder, record
from ._settings import seed

__all__ = ["RecordError", "Recorder", "record", "seed"]


def __getattr__(name: str) -> str:
    if name == "__version__":
        from ._version import version

        return version()
    raise AttributeError(f"module 'samebits' has no attribute {name!r}")
