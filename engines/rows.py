"""A row of a table by its name, or a user's own row from a TOML file with the same names."""

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, TypeVar

Row = TypeVar("Row")


def row_of(
    reference: str, table: Mapping[str, Row], kind: type[Row], what: str, may_be_zero: bool = False
) -> Row:  # fmt: skip
    """The row. ValueError in one line that says what is known, or what is wrong with the file.

    A number is above 0 unless `may_be_zero`, or its default is 0: what may be left out, as a link.
    """
    if reference in table:
        return table[reference]
    if not reference.endswith(".toml"):
        raise ValueError(f"unknown {what} {reference!r}: known are {', '.join([*table, 'FILE.toml'])}")
    path = Path(reference)
    try:
        values = tomllib.loads(path.read_text())
    except OSError as error:
        raise ValueError(f"{what} {reference!r} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"{what} {reference!r} is not TOML: {error}") from None
    return _row(reference, {"name": path.stem, "source": reference, **values}, kind, may_be_zero)


def _row(reference: str, values: dict[str, Any], kind: type[Row], may_be_zero: bool) -> Row:
    wanted: dict[str, Any] = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    missing = [name for name, field in wanted.items() if name not in values and field.default is MISSING]
    unknown = [name for name in values if name not in wanted]
    if missing or unknown:
        words = f"lacks {missing[0]}" if missing else f"has {unknown[0]}"
        raise ValueError(f"{reference!r} {words}: its names are {', '.join(wanted)}")
    for name, value in values.items():
        _check(reference, name, value, wanted[name].type)
        if value == 0 and not may_be_zero and not isinstance(value, bool) and wanted[name].default != 0:
            raise ValueError(f"{name} = {value!r} in {reference!r} must be above 0")
    return kind(**values)


def _check(reference: str, name: str, value: object, kind: type) -> None:
    """Of the right type, and no number below 0."""
    kinds = (int, float) if kind is float else (kind,)
    right = isinstance(value, kinds) and (kind is bool) == isinstance(value, bool)
    if not right or (isinstance(value, int | float) and not 0 <= value < float("inf")):
        raise ValueError(f"{name} = {value!r} in {reference!r} must be of type {kind.__name__}, and not below 0")
