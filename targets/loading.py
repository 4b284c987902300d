"""What a user names in a spec: MODULE:ATTRIBUTE or FILE.py:ATTRIBUTE."""

import importlib
import importlib.util
import types
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any


class _AsItStands(SourceFileLoader):
    """Reads the file itself: a compiled one passes for new if the file was changed within the second it was made in."""

    def get_code(self, fullname: str) -> types.CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def load(reference: str) -> Any:
    """The attribute that a reference names. ValueError in one line when there is none or its module fails."""
    place, _, attribute = reference.rpartition(":")
    try:
        module = _module_from_file(Path(place)) if place.endswith(".py") else _module(place, reference)
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"{place} cannot be loaded: {type(error).__name__}: {error}") from error
    if not hasattr(module, attribute):
        raise ValueError(f"{place} has no {attribute!r}")
    return getattr(module, attribute)


def _module(place: str, reference: str) -> types.ModuleType:
    if not all(part.isidentifier() for part in place.split(".")):
        raise ValueError(f"{reference!r} names no module: write FILE.py:CLASS or MODULE:CLASS")
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{place}.".startswith(f"{error.name}."):
            raise
        raise ValueError(f"no module {place!r}: write FILE.py:CLASS for a file") from None


def _module_from_file(path: Path) -> types.ModuleType:
    if not path.is_file():
        raise ValueError(f"no file {str(path)!r}")
    spec = importlib.util.spec_from_file_location(path.stem, path, loader=_AsItStands(path.stem, str(path)))
    if spec is None or spec.loader is None:
        raise ValueError(f"{str(path)!r} cannot be read as a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
