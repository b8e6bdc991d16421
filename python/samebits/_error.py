"""The one error that the recorder raises for what it was given."""


class RecordError(ValueError):
    """Says what was found, what was expected and what to do."""
