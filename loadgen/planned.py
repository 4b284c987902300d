"""From a schedule to what a server is asked: every request with its prompt, before time 0."""

from loadgen.prompts import prompt_recipe, prompt_text, prompt_token_ids
from results.schedule import Schedule
from targets.target import PlannedRequest


def planned_requests(schedule: Schedule, as_ids: bool) -> list[PlannedRequest]:
    """One a row, in the order of ids. `as_ids`: with token ids in place of text."""
    recipe = schedule.recipe.get("prompt") or prompt_recipe(0)
    sampling = schedule.recipe.get("sampling", {})
    lengths, outputs = schedule.prompt_tokens.tolist(), schedule.output_tokens.tolist()
    return [
        PlannedRequest(
            request_id=request_id,
            prompt_text="" if as_ids else prompt_text(recipe, request_id, tokens),
            prompt_token_ids=prompt_token_ids(recipe, request_id, tokens) if as_ids else None,
            max_tokens=output,
            session=session if session >= 0 else None,
            **sampling,
        )
        for request_id, (tokens, output, session) in enumerate(
            zip(lengths, outputs, schedule.session.tolist(), strict=True)
        )
    ]
