"""Speculative decoding as a matter of chance: how many of the tokens that were drafted for a step turn out right.

Each is right with the same probability if all before it are, whatever the text: on average a step then gives
(1 - a^(k + 1)) / (1 - a) tokens, of k drafts and a probability of a. Which ones depends on the request and the place in
its answer alone, so runs are the same to the bit.
"""

from hashlib import blake2b

BYTES = 8


def right_tokens(request_id: int, place_tokens: int, drafted_tokens: int, accepted_fraction: float) -> int:
    """How many of the drafts for the places from this one on are right, from the first on."""
    text = f"{request_id} {place_tokens}".encode()
    drawn = int.from_bytes(blake2b(text, digest_size=BYTES).digest(), "big") / 256**BYTES
    right, chance = 0, accepted_fraction
    while right < drafted_tokens and drawn < chance:
        right, chance = right + 1, chance * accepted_fraction
    return right
