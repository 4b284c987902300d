"""A list of rates as stages of one schedule, each a class of requests with figures of its own.

The stages are saved as a trace beside the run folders, and replayed: so the run can be repeated from its own config.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from loadgen.config import RunConfig, from_texts
from loadgen.traces.neutral import write_neutral
from loadgen.workload import build_schedule
from results.columns import NULL
from results.schedule import Schedule, make_schedule

GAP_NS = 5_000_000_000
"""From the last request of a stage to the first moment of the next: time to drain."""
OF_A_STAGE = ("rate", "arrival", "cv", "requests", "duration", "prompt-tokens", "output-tokens", "fill", "cooldown")
Texts = dict[str, Any]


def staged(texts: Mapping[str, Any]) -> Texts:
    """The texts as they are; with a list of rates, those of a run that replays its stages.

    ValueError in one line when a stage cannot be made.
    """
    rates = [rate.strip() for rate in str(texts.get("rate", "")).split(",")]
    if len(rates) < 2:  # noqa: PLR2004 - one rate is no list
        return dict(texts)
    if "trace" in texts or "preset" in texts:
        raise ValueError(f"--rate {texts['rate']}: a list of rates needs arrivals that are drawn: leave --trace out")
    configs = [from_texts({**texts, "rate": rate}) for rate in rates]
    made = joined([build_schedule(config) for config in configs], [f"rate={rate}" for rate in rates], configs)
    path = Path(configs[0].out) / f"stages-{made.sha256[:12]}.jsonl.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_neutral(made, path)
    return {**{key: text for key, text in texts.items() if key not in OF_A_STAGE}, "trace": str(path)}


def joined(stages: list[Schedule], names: list[str], configs: list[RunConfig]) -> Schedule:
    """One after the other, with a gap."""
    if len(set(names)) != len(names):
        raise ValueError(f"--rate {','.join(names)} names a rate twice")
    begins_ns, begin_ns = [], 0
    for stage, config in zip(stages, configs, strict=True):
        if bool((stage.due_ns == NULL).any()):
            raise ValueError("--rate: a closed loop has no rates")
        begins_ns.append(begin_ns)
        begin_ns += max(int(stage.due_ns[-1]), config.duration_ns or 0) + GAP_NS
    return make_schedule(
        np.concatenate([stage.due_ns + at_ns for stage, at_ns in zip(stages, begins_ns, strict=True)]),
        np.concatenate([stage.prompt_tokens for stage in stages]),
        np.concatenate([stage.output_tokens for stage in stages]),
        request_class=np.repeat(np.arange(len(stages)), [len(stage) for stage in stages]),
        class_names=tuple(names),
        recipe=stages[0].recipe,
        origin={**stages[0].origin, "process": "stages", "rate_rps": None, "stationary": False,
                "window": {"kind": "schedule"}, "label": ", then ".join(names)},
    )  # fmt: skip
