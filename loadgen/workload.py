"""From a config to a schedule: the one place where arrivals, lengths, prompts and traces come together."""

import secrets
from pathlib import Path
from typing import Any

import numpy as np

from loadgen.arrivals import PROCESSES, due_times_ns
from loadgen.config import RunConfig
from loadgen.lengths import draw_lengths
from loadgen.phases import DEFAULT_REQUESTS, fill_and_cooldown, open_due_ns, phase_codes, phases_of_trace, staggered
from loadgen.presets import LENGTHS
from loadgen.prompts import prompt_recipe
from loadgen.units import NS_PER_S
from results.columns import NULL, int64
from results.schedule import Schedule, make_schedule

SALT_BYTES = 8
SEED1_REQUESTS, SEED1_PROMPT_TOKENS, SEED1_OUTPUT_TOKENS = 24, (32, 96), (16, 48)


def build_schedule(config: RunConfig) -> Schedule:
    """The schedule that the config describes. ValueError in one line when it cannot be made."""
    sampling = {
        "ignore_eos": config.eos == "ignore",
        "temperature": config.temperature,
        "seed": config.seed if config.temperature else None,
    }
    salt = secrets.token_hex(SALT_BYTES) if config.target is not None and not config.same_bytes else None
    recipe: dict[str, Any] = {"prompt": prompt_recipe(config.seed, salt=salt), "sampling": sampling}
    if config.allow_empty:
        recipe["allow_empty"] = True
    if config.trace is not None:
        return _replayed(config, recipe)
    if config.preset == "seed1":
        return _seed1(config, recipe)
    if config.preset is not None:
        return _of_text(config, recipe)
    if config.arrival == "closed":
        return _closed(config, recipe)
    return _generated(config, recipe)


def _generated(config: RunConfig, recipe: dict[str, Any]) -> Schedule:
    process, cv = PROCESSES[config.arrival], config.cv or 1.0
    due_ns, end_ns = open_due_ns(config, cv)
    if len(due_ns) <= sum(fill_and_cooldown(config)):
        raise ValueError(f"no request is due in --duration at --rate {config.rate_rps:g} with seed {config.seed}")
    origin = {
        "process": config.arrival,
        "parameters": {"rate_rps": config.rate_rps, "cv": config.cv, "seed": config.seed, **_phases(config)},
        "rate_rps": config.rate_rps,
        "window": {"kind": "makespan"} if config.arrival == "burst" else {"kind": "schedule", "end_ns": end_ns},
        "stationary": process.stationary,
        "label": process.label,
    }
    return _with_lengths(due_ns, config, recipe, origin)


def _phases(config: RunConfig) -> dict[str, Any]:
    """What comes on top of the measured requests, where that was asked for."""
    fill, cooldown = fill_and_cooldown(config)
    return {"fill_requests": fill, "cooldown_requests": cooldown} if fill or cooldown else {}


def _with_lengths(
    due_ns: Any, config: RunConfig, recipe: dict[str, Any], origin: dict[str, Any], **more: Any
) -> Schedule:
    rows = len(due_ns)
    output_tokens = draw_lengths(rows, config.seed, "output", config.output_tokens)
    if config.arrival == "closed":
        output_tokens = staggered(output_tokens, config)
    return make_schedule(
        due_ns,
        draw_lengths(rows, config.seed, "prompt", config.prompt_tokens),
        output_tokens,
        phase=phase_codes(rows, *fill_and_cooldown(config)),
        recipe=recipe,
        origin=origin,
        **more,
    )


def _closed(config: RunConfig, recipe: dict[str, Any]) -> Schedule:
    """Users that each send their next request when the last is answered: request i belongs to user i mod users.

    The first requests of all users are due at 0; those that are fill are cut (see `staggered`).
    """
    users, measured = config.users or 1, config.requests or DEFAULT_REQUESTS
    fill, cooldown = fill_and_cooldown(config)
    requests = measured + fill + cooldown
    if measured < users:
        raise ValueError(f"--requests {measured} leaves users without any: ask for at least --users {users}")
    ids = np.arange(requests)
    first = ids < users
    origin = {
        "process": "closed",
        "parameters": {"users": users, "think_ns": config.think_ns or 0, "seed": config.seed, **_phases(config)},
        "rate_rps": None,
        "window": {"kind": "makespan"},
        "stationary": False,
        "label": f"closed loop of {users} users",
    }
    return _with_lengths(
        np.where(first, 0, NULL),
        config,
        recipe,
        origin,
        after=[() if now else (int(request_id - users),) for now, request_id in zip(first, ids, strict=True)],
        think_ns=np.where(first, NULL, config.think_ns or 0),
        session=ids % users,
        turn=ids // users,
    )


def _seed1(config: RunConfig, recipe: dict[str, Any]) -> Schedule:
    """The first text's schedule in its own order of draws: gaps, prompts, outputs from one numpy generator."""
    requests = config.requests or SEED1_REQUESTS
    generator = np.random.default_rng(config.seed)
    burst = config.arrival == "burst"
    due_s = np.cumsum(generator.exponential(1.0 / (config.rate_rps or 1.0), requests))
    prompts = generator.integers(*SEED1_PROMPT_TOKENS, requests, endpoint=True)
    outputs = generator.integers(*SEED1_OUTPUT_TOKENS, requests, endpoint=True)
    origin = {
        "process": "seed1",
        "parameters": {"rate_rps": config.rate_rps, "seed": config.seed, "requests": requests},
        "rate_rps": config.rate_rps,
        "window": {"kind": "makespan"} if burst else {"kind": "schedule"},
        "stationary": not burst,
        "label": "preset seed1",
    }
    due_ns = np.zeros(requests) if burst else np.rint(due_s * NS_PER_S)
    return make_schedule(int64(due_ns.astype(np.int64)), int64(prompts), int64(outputs), recipe=recipe, origin=origin)


def _of_text(config: RunConfig, recipe: dict[str, Any]) -> Schedule:
    """A published text's lengths, under the config's arrivals."""
    preset = LENGTHS[str(config.preset)]
    requests = config.requests or preset.requests
    burst = config.arrival == "burst"
    due_ns = due_times_ns(config.arrival, requests, config.rate_rps or 1.0, config.seed, config.cv or 1.0)
    prompts, outputs = preset.lengths(requests, config.seed)
    origin = {
        "process": config.arrival,
        "parameters": {"preset": config.preset, "rate_rps": config.rate_rps, "seed": config.seed},
        "rate_rps": config.rate_rps,
        "window": {"kind": "makespan"} if burst else {"kind": "schedule"},
        "stationary": PROCESSES[config.arrival].stationary,
        "label": f"preset {config.preset}",
    }
    return make_schedule(due_ns, prompts, outputs, recipe=recipe, origin=origin)


def _replayed(config: RunConfig, recipe: dict[str, Any]) -> Schedule:
    from loadgen.traces.catalog import read_trace
    from loadgen.traces.replay import Replay, replay

    context_tokens, context_policy = config.context or (None, "error")
    trace = read_trace(Path(config.trace or ""), columns=dict(config.columns or ()), time_unit=config.time_unit)
    schedule = replay(
        trace,
        Replay(
            window_ns=config.window_ns,
            limit=config.limit,
            speed=config.speed,
            rate_rps=config.rate_rps,
            loop=config.loop or 1,
            context_tokens=context_tokens,
            context_policy=context_policy,
        ),
        recipe,
    )
    return as_burst(schedule) if config.arrival == "burst" else phases_of_trace(schedule, config)


def as_burst(schedule: Schedule) -> Schedule:
    """The same requests, all due at 0 that wait for nobody; with followers it is a closed mode."""
    due_ns = np.where(schedule.due_ns == NULL, NULL, 0)
    closed = bool(len(schedule.after_ids))
    origin = {
        **schedule.origin,
        "rate_rps": None,
        "window": {"kind": "makespan"},
        "stationary": False,
        "label": "burst of sessions (closed)" if closed else "burst",
    }
    return Schedule(
        due_ns=due_ns,
        after_offsets=schedule.after_offsets.copy(),
        after_ids=schedule.after_ids.copy(),
        think_ns=schedule.think_ns.copy(),
        session=schedule.session.copy(),
        turn=schedule.turn.copy(),
        request_class=schedule.request_class.copy(),
        phase=schedule.phase.copy(),
        prompt_tokens=schedule.prompt_tokens.copy(),
        output_tokens=schedule.output_tokens.copy(),
        class_names=schedule.class_names,
        recipe=schedule.recipe,
        origin=origin,
    )
