"""Prompts: token ids from a recipe, each request's from a stream of its own."""

import numpy as np
import pytest

from loadgen.prompts import LazyPrompt, prompt_recipe, prompt_source, prompt_token_ids
from results.schedule import make_schedule

RECIPE = prompt_recipe(7)


def test_ids_are_uniform_over_the_vocabulary() -> None:
    """Ids are 0..255, each about equally often: chi-square of 200,000 ids is within five sigma of its mean."""
    ids = np.array(prompt_token_ids(RECIPE, 0, 200_000))
    counts = np.bincount(ids, minlength=256)
    assert len(counts) == 256
    chi_square = float(((counts - 200_000 / 256) ** 2 / (200_000 / 256)).sum())
    assert abs(chi_square - 255) < 5 * (2 * 255) ** 0.5


def test_every_request_has_its_own_prompt() -> None:
    """No two requests share a prompt, nor a beginning of eight tokens; another seed gives another prompt."""
    prompts = {tuple(prompt_token_ids(RECIPE, request_id, 8)) for request_id in range(500)}
    assert len(prompts) == 500
    assert prompt_token_ids(RECIPE, 3, 8) != prompt_token_ids(prompt_recipe(8), 3, 8)


def test_a_longer_prompt_begins_with_the_shorter_one() -> None:
    """A request's stream does not depend on its length."""
    assert prompt_token_ids(RECIPE, 5, 100)[:40] == prompt_token_ids(RECIPE, 5, 40)


def test_these_ids_never_change() -> None:
    """A golden prompt: request 0 of seed 7."""
    assert prompt_token_ids(RECIPE, 0, 8) == [133, 43, 80, 110, 165, 96, 87, 83]


def test_a_recipe_of_another_kind_is_refused() -> None:
    """What this version cannot draw is named."""
    with pytest.raises(ValueError, match="unknown prompt recipe 'poetry'"):
        prompt_token_ids({"kind": "poetry"}, 0, 4)


def test_a_lazy_prompt_is_the_prompt() -> None:
    """Its length is known without drawing; read in any way it gives the same ids."""
    eager = prompt_token_ids(RECIPE, 9, 50)
    lazy = LazyPrompt(RECIPE, 9, 50)
    assert len(lazy) == 50
    assert lazy[7] == eager[7]
    assert lazy[-1] == eager[-1]
    assert list(lazy[10:20]) == eager[10:20]
    assert list(lazy) == eager
    assert eager[3] in lazy
    with pytest.raises(IndexError):
        lazy[50]


def test_a_length_alone_draws_nothing() -> None:
    """Until an id is read, even a recipe that cannot be drawn is no error."""
    assert len(LazyPrompt({"kind": "poetry"}, 0, 12)) == 12


@pytest.mark.parametrize("lazy", [True, False])
def test_the_source_gives_each_request_its_prompt(lazy: bool) -> None:
    """By id, as long as the schedule says, lazy or not."""
    schedule = make_schedule([0, 1, 2], [5, 60, 1], [1, 1, 1], recipe={"prompt": RECIPE})
    source = prompt_source(schedule, lazy)
    assert [list(source(row)) for row in range(3)] == [
        prompt_token_ids(RECIPE, row, tokens) for row, tokens in enumerate([5, 60, 1])
    ]
    assert isinstance(source(0), LazyPrompt) == lazy


def test_without_a_recipe_the_prompts_are_those_of_seed_0() -> None:
    """A schedule made by hand has prompts too."""
    source = prompt_source(make_schedule([0], [6], [1]), lazy=False)
    assert list(source(0)) == prompt_token_ids(prompt_recipe(0), 0, 6)
