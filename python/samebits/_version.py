"""The version of this package, which is that of the `samebits` program in the same wheel."""


def version() -> str:
    """As installed; `source` when run from a checkout."""
    # Only here, since it loads a dozen modules that a training script may do without.
    from importlib import metadata

    try:
        return metadata.version("samebits")
    except metadata.PackageNotFoundError:
        return "source"
