"""Prometheus' text format, line by line: a malformed line costs that line, not the scrape.

prometheus_client knows the grammar, but spends some 30 us a line, and a server tells the same series every second:
each is parsed once and then known by its text.
"""

import math
import re
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from results.stamp.names import is_secret_name
from results.stamp.redaction import REDACTED, redact_text

MOST_SERIES = 20_000
LONGEST_LINE_BYTES = 8192
SHORTEST_SECRET = 6
"""Characters: what is shorter would be found in words that are none."""
_PLAIN = re.compile(r"([A-Za-z_:][\w:]*(?:\{[^}]*\})?)[ \t]+([-+]?[\w.+-]+)(?:[ \t]+-?\d+)?\Z", re.ASCII)
Sample = tuple[str, str, float | None]
"""Name, labels and value; None: it was not finite, or no number."""


@dataclass(frozen=True, slots=True)
class Page:
    """What one answer told."""

    samples: list[Sample]
    skipped_rows: int = 0
    """Lines that are no samples."""
    cut_rows: int = 0
    """Samples above the limit."""


@dataclass(slots=True)
class Exposition:
    """A reader of one server's pages that remembers the series it has seen."""

    secrets: tuple[str, ...] = ()
    """Texts that never leave: they are cut out of what a server sends back."""
    _known: dict[str, tuple[str, str]] = field(default_factory=dict)
    _cleaned: dict[str, str] = field(default_factory=dict)

    def read(self, text: str) -> Page:
        """Every sample of a page, in its order; of a series told twice, both."""
        samples: list[Sample] = []
        skipped = cut = 0
        for line in map(str.strip, text.split("\n")):
            if not line or line.startswith("#"):
                continue
            sample = self._sample(line) if len(line) <= LONGEST_LINE_BYTES else None
            if sample is None:
                skipped += 1
            elif len(samples) == MOST_SERIES:
                cut += 1
            else:
                samples.append(sample)
        return Page(samples, skipped, cut)

    def _sample(self, line: str) -> Sample | None:
        plain = _PLAIN.match(line)
        if plain is not None:
            key, number = plain.groups()
            known = self._known.get(key)
            value = _number(number)
            if known is not None and value is not None:
                return (*known, value if math.isfinite(value) else None)
        parsed = _parsed(line)
        if parsed is None:
            return None
        name, labels, value = parsed
        series = (self._clean(name), canonical({key: self._clean(one, key) for key, one in labels.items()}))
        if plain is not None and len(self._known) < 2 * MOST_SERIES:
            self._known[plain[1]] = series
        return (*series, value if math.isfinite(value) else None)

    def _clean(self, text: str, under: str = "") -> str:
        """Without secrets; the same words come again and again."""
        if is_secret_name(under):
            return REDACTED
        if text not in self._cleaned:
            clean = text
            for secret in self.secrets:
                clean = clean.replace(secret, REDACTED) if len(secret) >= SHORTEST_SECRET else clean
            if len(self._cleaned) >= 2 * MOST_SERIES:
                self._cleaned.clear()
            self._cleaned[text] = redact_text(clean)
        return self._cleaned[text]


def canonical(labels: dict[str, str]) -> str:
    """{name="value",...}, sorted, in one printable line; empty without labels."""
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in sorted(labels.items())) + "}"


def _escaped(value: str) -> str:
    plain = value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return "".join(char if char.isprintable() else REPLACED for char in plain)


REPLACED = "\N{REPLACEMENT CHARACTER}"


def _parsed(line: str) -> tuple[str, dict[str, str], float] | None:
    """One line by the library; None: it is no sample."""
    try:
        sample = next(iter(text_string_to_metric_families(line + "\n"))).samples[0]
        return sample.name, sample.labels, float(sample.value)
    except (ValueError, IndexError, StopIteration, TypeError, KeyError, OverflowError):
        return None


def _number(text: str) -> float | None:
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None
