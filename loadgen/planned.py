"""From a schedule to what a server is asked: every request with its prompt, before time 0."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loadgen.prompts import prompt_recipe, prompt_text, prompt_token_ids
from results.schedule import Schedule
from targets.target import PlannedRequest


@dataclass(frozen=True, slots=True)
class RequestForm:
    """What requests to a server have in common."""

    recipe: dict[str, Any]
    """Of their prompts."""
    sampling: Mapping[str, Any]
    as_ids: bool
    """With token ids in place of text."""

    def fill(
        self, request_id: int, prompt_tokens: int, output_tokens: int, session: int | None = None
    ) -> PlannedRequest:
        """One of them, its prompt by its id."""
        return PlannedRequest(
            request_id=request_id,
            prompt_text="" if self.as_ids else prompt_text(self.recipe, request_id, prompt_tokens),
            prompt_token_ids=prompt_token_ids(self.recipe, request_id, prompt_tokens) if self.as_ids else None,
            max_tokens=output_tokens,
            session=session,
            **self.sampling,
        )


def planned_requests(schedule: Schedule, as_ids: bool) -> list[PlannedRequest]:
    """One a row, in the order of ids. `as_ids`: with token ids in place of text."""
    recipe = schedule.recipe.get("prompt") or prompt_recipe(0)
    form = RequestForm(recipe, schedule.recipe.get("sampling", {}), as_ids)
    columns = (schedule.prompt_tokens, schedule.output_tokens, schedule.session)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [
        form.fill(request_id, prompt_tokens, output_tokens, session if session >= 0 else None)
        for request_id, (prompt_tokens, output_tokens, session) in enumerate(rows)
    ]
