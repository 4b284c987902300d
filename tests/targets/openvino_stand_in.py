"""OpenVINO GenAI's pipeline as far as the adapter uses it, for machines where it is not installed."""

import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from targets.openvino import OpenVinoEngine

VOCABULARY, CONTEXT_TOKENS = 512, 2048
STARVED = "starved.json"


@dataclass
class Handle:
    """What the stand-in gives for a request: its state, and what has not been read yet."""

    prompt: list[int]
    generation: Any
    status: str = "RUNNING"
    made: list[int] = field(default_factory=list)
    unread: deque[tuple[int, str]] = field(default_factory=deque)

    def can_read(self) -> bool:
        return bool(self.unread)

    def read(self) -> dict[int, Any]:
        token_id, reason = self.unread.popleft()
        return {0: SimpleNamespace(generated_ids=[token_id], finish_reason=SimpleNamespace(name=reason))}

    def get_status(self) -> Any:
        return SimpleNamespace(name=self.status)

    def stop(self) -> None:
        self.status = "STOP"

    def compute(self) -> None:
        """The next token: a hash of the text so far."""
        text = [*self.prompt, *self.made]
        self.made.append((31 * sum(text) + 7 * len(text)) % VOCABULARY)
        stopped = not self.generation.ignore_eos and self.made[-1] in self.generation.stop_token_ids
        ended = stopped or len(self.made) == self.generation.max_new_tokens
        self.status = "FINISHED" if ended else "RUNNING"
        self.unread.append((self.made[-1], ("STOP" if stopped else "LENGTH") if ended else "NONE"))


class StandIn:
    """The pipeline's scheduling as observed: prefills first, stopped requests keep their slot for one more step, and
    a step with nobody to serve drops everyone."""

    def __init__(self, path: str, scheduler: Any, device: str, properties: dict[str, Any]) -> None:
        if not Path(path).exists():
            raise RuntimeError("Check failed:\nno such model\n")
        told = json.loads((Path(path) / STARVED).read_text()) if (Path(path) / STARVED).exists() else {}
        self._starved = {int(step): positions for step, positions in told.items()}
        self._steps = 0
        self._scheduler = scheduler
        self._handles: list[Handle] = []
        self._scheduled = 0

    def get_config(self) -> Any:
        return SimpleNamespace(stop_token_ids=set(), eos_token_id=2)

    def get_metrics(self) -> Any:
        return SimpleNamespace(scheduled_requests=self._scheduled)

    def add_request(self, number: int, ids: Any, generation: Any) -> Handle:
        assert generation.eos_token_id in generation.stop_token_ids
        self._handles.append(Handle(ids[0].tolist(), generation))
        return self._handles[-1]

    def step(self) -> None:
        self._steps += 1
        starved = self._starved.get(self._steps, [])
        started = [handle for handle in self._handles if handle.made]
        live = [handle for handle in self._handles if handle.status == "RUNNING"]
        free_slots = self._scheduler.max_num_seqs - len(started)
        batch = [handle for handle in live if not handle.made][:free_slots]
        batch = batch or [one for at, one in enumerate(live) if one.made and at not in starved]
        for handle in batch:
            handle.compute()
        for handle in [] if batch else self._handles:
            handle.status = "IGNORED"
        self._scheduled = len(batch)
        self._handles = [handle for handle in self._handles if handle.status == "RUNNING"]


class StandInEngine(OpenVinoEngine):
    """The adapter on the stand-in, with the options that it has."""

    def packages(self) -> tuple[Any, Any]:
        genai = SimpleNamespace(
            __version__="stand-in",
            SchedulerConfig=SimpleNamespace,
            GenerationConfig=SimpleNamespace,
            ContinuousBatchingPipeline=StandIn,
        )
        return genai, SimpleNamespace(Tensor=lambda array: array)


def empty_model(folder: Path, starved: Mapping[int, Sequence[int]] | None = None) -> Path:
    """What the adapter looks for in an exported model's folder, without the model.

    `starved`: step of the pipeline, from 1 -> positions of running requests that have no room in the cache then.
    """
    (folder / "openvino_model.xml").write_text("<net/>")
    told = {"max_position_embeddings": CONTEXT_TOKENS, "vocab_size": VOCABULARY}
    (folder / "config.json").write_text(json.dumps(told))
    (folder / STARVED).write_text(json.dumps(starved or {}))
    return folder
