"""The one way in which a command of many runs ends early without an error."""


class StoppedError(Exception):
    """Somebody stopped it; what there is was written."""
