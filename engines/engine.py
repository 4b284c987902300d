"""The in-process seam: any stepping engine fits.

The driver owns the loop and the clock. It hands over what is due, asks `ready_ns`, calls `step`, and bills the
step's duration. An engine never reads a clock: `now_ns` and `arrival_ns` are data on the run's time axis.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, overload

from results.slots import StepWork

JSON = None | bool | int | float | str | Sequence["JSON"] | Mapping[str, "JSON"]


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How a request's tokens are chosen and when it ends."""

    max_tokens: int
    ignore_eos: bool = True
    temperature: float = 0.0
    """0: greedy."""
    seed: int | None = None
    stop_token_ids: tuple[int, ...] = ()


@dataclass(slots=True)
class Request:
    """One request as an engine sees it."""

    request_id: int
    prompt_token_ids: Sequence[int]
    """Lazy in cost-only runs: its length is always known, its ids are drawn when first read."""
    params: SamplingParams
    arrival_ns: int
    """When it was due, on the run's clock: data, not a clock."""
    request_class: int = 0
    """Place of its class among those that the schedule names."""


@dataclass(slots=True)
class StepOutput:
    """Tokens delivered to one request by one step."""

    request_id: int
    token_ids: Sequence[int]
    finished: bool = False
    finish_reason: str | None = None


@dataclass(slots=True)
class OneTokenEach(Sequence[StepOutput]):
    """The outputs of a step that gave one token to each of some requests, held as columns.

    Reads as a sequence of `StepOutput`s, which are made only when somebody looks.
    """

    request_ids: Sequence[int]
    token_ids: Sequence[int]
    finish_reasons: Mapping[int, str] = field(default_factory=dict)
    """Of those that finished, by request id."""

    def __len__(self) -> int:
        """Outputs."""
        return len(self.request_ids)

    @overload
    def __getitem__(self, index: int) -> StepOutput: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[StepOutput]: ...
    def __getitem__(self, index: int | slice) -> StepOutput | Sequence[StepOutput]:
        """The output at the index."""
        if isinstance(index, slice):
            return OneTokenEach(self.request_ids[index], self.token_ids[index], self.finish_reasons)
        request_id = self.request_ids[index]
        reason = self.finish_reasons.get(request_id)
        return StepOutput(request_id, (self.token_ids[index],), reason is not None, reason)


@dataclass(slots=True)
class Step:
    """What one call of `step` did."""

    outputs: Sequence[StepOutput]
    admitted: Sequence[tuple[int, int]] = ()
    """(request_id, slot) given a slot at this step's start."""
    ended: Sequence[int] = ()
    """Requests whose last token was computed in this step, even if it is delivered later."""
    released: Sequence[int] = ()
    """Requests whose slot is free after this step."""
    work: StepWork | None = None
    """None: not told."""
    modelled_cost_ps: int | None = None
    """Integer picoseconds, so that sums are exact and runs bit-identical. None: not told."""


@dataclass(slots=True)
class Stretch:
    """Steps of one batch advanced together: each running request gets one token a step."""

    steps: int
    first_cost_ps: int
    cost_slope_ps: int
    """Each step costs this much more than the one before it."""
    work: StepWork
    """Of the first step; its kv_tokens grow by decoding_slots a step."""
    request_ids: Sequence[int] | None = None
    """Who gets the tokens. None: all who are in a slot and have not ended."""
    ended: Sequence[int] = ()
    released: Sequence[int] = ()
    outputs: ClassVar[OneTokenEach] = OneTokenEach((), ())
    """None are told one by one."""
    admitted: ClassVar[Sequence[tuple[int, int]]] = ()


class Engine(Protocol):
    """A stepping engine. One may also have `advance(now_ps, until_ps) -> Stretch | None` (modelled clock only)."""

    def add_request(self, request: Request) -> None:
        """Queue a request. ValueError with one line when it can never fit."""

    def has_work(self) -> bool:
        """Whether any request is waiting or running."""
        ...

    def ready_ns(self, now_ns: int) -> int | None:
        """`now_ns`: step() would do something; later: not before then; None: only after an arrival or flush()."""
        ...

    def step(self, now_ns: int) -> Step:
        """Admit, run one step, commit."""
        ...

    def flush(self) -> None:
        """Nothing else is due at present: serve what is held back now. What comes later is held back again."""

    def abort(self, request_id: int) -> None:
        """Drop a request: its slot is empty from the next step on, and nothing of it is delivered any more."""

    def describe(self) -> Mapping[str, JSON]:
        """Slots, context limit, vocabulary, policy and options, model, threads, how its cost is billed."""
        ...
