"""Which names may stand for a secret: options, keys of a document, headers, variables.

Errs on the side of too many. What counts tokens (`prefill_token_ps`, `eos_token_id`, `max_tokens`) is no secret.
"""

import re
from urllib.parse import unquote

_ANYWHERE = re.compile(
    r"passw|passphrase|secret|credential|authoriz|authenticat|bearer|cookie|privatekey|signature"
    r"|(api|auth|access|refresh|security|hf|huggingface|hub|github|gitlab|openai|anthropic|azure|aws|client"
    r"|subscription|encryption|signing|ssh)(key|token)"
)
"""In a name written small and without anything between its words."""
_TO_THE_END = re.compile(r"authoriz|authenticat|cookie")
_ENDINGS = frozenset(("key", "keys", "pass", "pwd", "auth", "sig", "jwt", "pat", "creds"))
_COUNTED_BEFORE = frozenset((
    "eos", "bos", "pad", "unk", "stop", "first", "last", "next", "per", "each", "max", "min", "prefill", "decode",
    "prompt", "output", "input", "new", "mask", "special", "vocab",
))  # fmt: skip
_COUNTED_AFTER = frozenset((
    "id", "ids", "source", "ps", "ns", "us", "ms", "s", "count", "counts", "per", "rate", "budget", "limit", "length",
    "type", "types", "index", "position", "bytes", "fraction", "ratio", "share", "rows", "steps", "events", "times",
    "time",
))  # fmt: skip
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def is_secret_name(name: str) -> bool:
    """Whether what goes under this name may be a secret, however it is spelled: apiKey, API-KEY, api%5Fkey."""
    words = _words(name)
    if _ANYWHERE.search("".join(words)) or (words and words[-1] in _ENDINGS):
        return True
    return any(_is_secret_token(words, place) for place, word in enumerate(words) if word == "token")


def takes_the_line(name: str) -> bool:
    """Whether its value goes on to the end of the line, with `name=value` parts of its own."""
    return bool(_TO_THE_END.search("".join(_words(name))))


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(unquote(name))]


def _is_secret_token(words: list[str], place: int) -> bool:
    before = words[place - 1] if place else ""
    after = words[place + 1] if place + 1 < len(words) else ""
    return before not in _COUNTED_BEFORE and after not in _COUNTED_AFTER
