"""What a run was asked to do, from its run.json: engine, load, limits, and the command that asks it again."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from results.schedule import COOLDOWN, FILL, MEASURE, Schedule

Json = dict[str, Any]
DEFAULT_SLO = "ttft<=1s,tpot<=50ms"
"""Where neither config nor summary names one: that is how commands leave out their default."""
LEFT_OUT = ("out", "name")
"""Options that say where a run's folder goes, and nothing about the run."""
FLAG_GIVEN = "true"
"""What the config holds of an option that takes no value."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A schedule in a few figures."""

    sha256: str
    process: str
    phases: str
    """What is left out of every figure at the schedule's ends, in words."""
    requests: int
    prompt_tokens: tuple[int, int]
    """Smallest and largest."""
    output_tokens: tuple[int, int]
    mean_output_tokens: float
    longest_of_batch: tuple[float, ...]
    """Expected largest output length among B requests drawn from these, for B = 1, 2, ... 64."""


LARGEST_BATCH = 64


def workload_of(schedule: Schedule) -> Workload:
    """Its figures; lengths are those of all rows."""
    prompts, outputs = schedule.prompt_tokens, schedule.output_tokens
    origin = schedule.origin
    return Workload(
        sha256=schedule.sha256,
        process=str(origin.get("label") or origin.get("process") or "given"),
        phases=_phases_text(schedule),
        requests=int((schedule.phase == MEASURE).sum()),
        prompt_tokens=(int(prompts.min()), int(prompts.max())) if len(schedule) else (0, 0),
        output_tokens=(int(outputs.min()), int(outputs.max())) if len(schedule) else (0, 0),
        mean_output_tokens=float(outputs.mean()) if len(schedule) else 0.0,
        longest_of_batch=_longest_of_batches(outputs),
    )


def _phases_text(schedule: Schedule) -> str:
    fill, cooldown = (int((schedule.phase == code).sum()) for code in (FILL, COOLDOWN))
    begins = f"{fill} more of fill (not counted)" if fill else "no fill (the way up from empty counts)"
    return begins + (f", {cooldown} of cool-down (not counted)" if cooldown else ", no cool-down (the way down counts)")


def config_of(info: Mapping[str, Any]) -> Json:
    """The option texts that were given."""
    config = info.get("config")
    return config if isinstance(config, dict) else {}


def engine_of(info: Mapping[str, Any]) -> str:
    """The spec or a server's address, or where it was left at its default what the engine calls itself."""
    told = info.get("engine")
    itself = told if isinstance(told, dict) else {}
    if info.get("target") == "http":
        return str(config_of(info).get("target") or "server")
    return str(config_of(info).get("engine") or itself.get("policy") or itself.get("name") or "engine")


def load_of(info: Mapping[str, Any], schedule: Schedule) -> tuple[str, float | None]:
    """`16`, `burst`, `closed:8` or `trace`, and the rate."""
    config, origin = config_of(info), schedule.origin
    rate_rps = origin.get("rate_rps")
    if config.get("arrival") == "closed":
        return f"closed:{config.get('users', '?')}", None
    if config.get("arrival") == "burst":
        return "burst", None
    if isinstance(rate_rps, int | float) and rate_rps > 0:
        return f"{rate_rps:g}", float(rate_rps)
    return "trace" if config.get("trace") else "given", None


def limits_of(stored_summary: Json | None, *configs: Json) -> str:
    """The SLO in words; empty when none was asked for."""
    for config in configs:
        if config.get("slo"):
            return str(config["slo"])
    slo = (stored_summary or {}).get("slo")
    return str(slo.get("limits") or "") if isinstance(slo, dict) else DEFAULT_SLO


def command_of(info: Mapping[str, Any]) -> str:
    """The command line that runs this once more."""
    words = ["tokenload", "run"]
    for key, texts in sorted(config_of(info).items()):
        if key not in LEFT_OUT:
            for text in texts if isinstance(texts, list) else [texts]:
                words += [f"--{key}"] if text == FLAG_GIVEN else [f"--{key}", str(text)]
    return shlex.join(words)


def _longest_of_batches(values: Any) -> tuple[float, ...]:
    """E[max of B draws] for B = 1, 2, ... from the values: each counts for the chance to be the largest."""
    lengths, counts = np.unique(values, return_counts=True)
    reached = np.concatenate([[0.0], np.cumsum(counts) / max(len(values), 1)])
    return tuple(float((lengths * np.diff(reached**batch)).sum()) for batch in range(1, LARGEST_BATCH + 1))
