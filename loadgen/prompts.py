"""Prompts from a schedule's recipe: uniform token ids or words, each request from a stream of its own.

A salt makes the content of one run differ from that of another of the same shape, so that a server's prompt cache
cannot know it.
"""

from collections.abc import Callable, Sequence
from typing import Any, overload

from loadgen.streams import integers, uniforms
from loadgen.words import WORDS
from results.schedule import Schedule


def prompt_recipe(seed: int, vocabulary: int = 256, salt: str | None = None) -> dict[str, Any]:
    """Uniform ids from 0 to vocabulary - 1, distinct per request."""
    recipe: dict[str, Any] = {"kind": "uniform", "vocabulary": vocabulary, "seed": seed}
    return recipe if salt is None else {**recipe, "salt": salt}


def prompt_token_ids(recipe: dict[str, Any], request_id: int, tokens: int) -> list[int]:
    """The prompt of one request. ValueError for a recipe of another kind."""
    if recipe.get("kind") != "uniform":
        raise ValueError(f"unknown prompt recipe {recipe.get('kind')!r}: this version draws 'uniform' only")
    drawn = uniforms(recipe["seed"], _stream(recipe, request_id), tokens)
    ids: list[int] = integers(drawn, 0, recipe["vocabulary"] - 1).tolist()
    return ids


def prompt_text(recipe: dict[str, Any], request_id: int, tokens: int) -> str:
    """The same prompt as words, one a token, for servers that take text."""
    drawn = integers(uniforms(recipe["seed"], _stream(recipe, request_id), tokens), 0, len(WORDS) - 1)
    return " ".join([WORDS[at] for at in drawn.tolist()])


def _stream(recipe: dict[str, Any], request_id: int) -> str:
    salt = recipe.get("salt")
    return f"prompts.{request_id}" if salt is None else f"prompts.{salt}.{request_id}"


class LazyPrompt(Sequence[int]):
    """A prompt whose length is known and whose ids are drawn when first read."""

    __slots__ = ("_ids", "_recipe", "_request_id", "_tokens")

    def __init__(self, recipe: dict[str, Any], request_id: int, tokens: int) -> None:
        """Draws nothing."""
        self._recipe = recipe
        self._request_id = request_id
        self._tokens = tokens
        self._ids: list[int] | None = None

    def __len__(self) -> int:
        """Tokens."""
        return self._tokens

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...
    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        """Ids, drawn once."""
        if self._ids is None:
            self._ids = prompt_token_ids(self._recipe, self._request_id, self._tokens)
        return self._ids[index]


def prompt_source(schedule: Schedule, lazy: bool) -> Callable[[int], Sequence[int]]:
    """Request id -> prompt. Not lazy: all are drawn now, so that nothing is drawn during the run."""
    recipe = schedule.recipe.get("prompt") or prompt_recipe(0)
    lengths = schedule.prompt_tokens.tolist()
    if lazy:
        return lambda request_id: LazyPrompt(recipe, request_id, lengths[request_id])
    prompts = [prompt_token_ids(recipe, request_id, tokens) for request_id, tokens in enumerate(lengths)]
    return prompts.__getitem__
