"""The hash of a page in the page itself: a report that was mailed shows whether it is the one that was written."""

import hashlib
import re

BLANK = "0" * 64
_SEAL = re.compile(r'<meta name="tokenload-sha256" content="([0-9a-f]{64})">')


def sealed(page: str) -> str:
    """The page with its SHA-256, taken of the page without it. The template has the place, filled with zeros."""
    return _with(page, _sha256(page))


def is_as_written(page: str) -> bool:
    """Whether nothing of it was changed since it was sealed; one without a seal was."""
    found = _SEAL.search(page)
    return found is not None and found[1] == _sha256(_with(page, BLANK))


def _with(page: str, sha256: str) -> str:
    return _SEAL.sub(f'<meta name="tokenload-sha256" content="{sha256}">', page, count=1)


def _sha256(page: str) -> str:
    return hashlib.sha256(page.encode()).hexdigest()
