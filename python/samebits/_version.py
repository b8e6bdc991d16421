"""The version of this package, which is that of the `samebits` program in the same wheel."""

from importlib import metadata


def version() -> str:
    """As installed; `source` when run from a checkout."""
    try:
        return metadata.version("samebits")
    except metadata.PackageNotFoundError:
        return "source"
