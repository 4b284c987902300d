"""`--engine SPEC` to an engine: NAME, FILE.py:CLASS or MODULE:CLASS, then ,key=value.

Options are read by the annotations of the builder they belong to: a count, true or false, one of a few words, a
duration with its unit.
"""

import inspect
import types
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from engines.catalog import EXECUTORS, POLICIES
from engines.cost import ByteCount, DurationPs, LinearCost
from engines.engine import Engine
from engines.paged import PagedEngine
from engines.policies import DurationNs
from engines.slots import SlotEngine
from loadgen.config_table import RunConfig
from loadgen.units import parse_bytes, parse_duration_ns, parse_duration_ps
from results.schedule import Schedule
from targets.inprocess import InProcessEngine
from targets.loading import load

GLOBAL_MAX = "global-max"
MOST_DIGITS = 9
SUPPLIED = ("slots", "cached")
"""Arguments of an executor's builder that come from the policy."""


def machine_of(config: RunConfig) -> dict[str, str]:
    """--hardware and --model of a config, as far as they are given: options of the roofline."""
    told = {"hardware": config.hardware, "model": config.model}
    return {name: value for name, value in told.items() if value is not None}


def make_engine(
    spec: str, clock: str, schedule: Schedule | None, machine: Mapping[str, str] = MappingProxyType({})
) -> Engine:
    """A fresh engine. ValueError with one line for anything in the spec that cannot be.

    The executor is the cost-only one in modelled time and the transformer otherwise, unless executor= says so.
    `machine`: options of a roofline, which is then the executor; those in the spec come first.
    `until=global-max` is replaced by the schedule's longest output; schedule None: whoever asks has none.
    """
    name, options = split_spec(spec)
    if machine and (":" in name or options.get("executor", "roofline") != "roofline"):
        raise ValueError(f"--{next(iter(machine))} is of executor=roofline, which engine {spec} does not have")
    if ":" in name:
        return _foreign(name, options)
    if name not in POLICIES:
        raise ValueError(f"unknown engine {name!r}: known are {', '.join(POLICIES)}, FILE.py:CLASS and MODULE:CLASS")
    if options.get("until") == GLOBAL_MAX:
        if schedule is None:
            raise ValueError("until=global-max needs a schedule to look at: write until=N")
        options["until"] = str(int(schedule.output_tokens.max()))
    default = "roofline" if machine else "cost" if clock == "modelled" else "tinygpt"
    executor_name = options.pop("executor", default)
    options = {**machine, **options}
    if executor_name not in EXECUTORS:
        raise ValueError(f"unknown executor {executor_name!r}: known are {', '.join(EXECUTORS)}")
    builder, executor_builder = load(POLICIES[name][0]), load(EXECUTORS[executor_name][0])
    policy = builder(**_take(options, builder))
    executor_options = _take(options, executor_builder, without=SUPPLIED)
    executor = executor_builder(policy.slots, policy.cached, **executor_options)
    billed_itself = hasattr(executor, "cost_model")
    cost_model = executor.cost_model if billed_itself else LinearCost(**_take(options, LinearCost))
    if options:
        costs = () if billed_itself else _parameters(LinearCost)
        known = [*_parameters(builder), *_parameters(executor_builder, SUPPLIED), *costs, "executor"]
        raise ValueError(f"engine {name} has no option {next(iter(options))!r}: known are {', '.join(known)}")
    if policy.budget_tokens is not None:
        return PagedEngine(policy, executor, cost_model)
    return SlotEngine(policy, executor, cost_model)


def split_spec(spec: str) -> tuple[str, dict[str, str]]:
    """Name and options of a spec."""
    name, *rest = (part.strip() for part in spec.split(","))
    options: dict[str, str] = {}
    for part in rest:
        key, separator, value = part.partition("=")
        if not separator or not key or not value:
            raise ValueError(f"{part!r} in engine {spec!r} is not an option: write key=value")
        if key in options:
            raise ValueError(f"engine {spec!r} gives {key} twice: keep one of {key}={options[key]} and {part}")
        options[key] = value
    return name, options


def _foreign(name: str, options: dict[str, str]) -> Engine:
    engine_class = load(name)
    if not callable(engine_class):
        raise ValueError(f"{name} is not a class: it cannot make an engine")
    given = _take(options, engine_class)
    slots = options.pop("slots", None)
    known = ", ".join(dict.fromkeys([*_parameters(engine_class), "slots"]))
    if options:
        raise ValueError(f"engine {name} has no option {next(iter(options))!r}: known are {known}")
    try:
        inspect.signature(engine_class).bind(**given)
    except TypeError as error:
        raise ValueError(f"engine {name}: {error}; its options are {known}") from None
    try:
        engine = engine_class(**given)
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"engine {name} cannot be made: {type(error).__name__}: {error}") from error
    return InProcessEngine(engine, _read("slots", int, slots) if slots else None)


def _take(options: dict[str, str], builder: Callable[..., Any], without: tuple[str, ...] = ()) -> dict[str, Any]:
    """Remove the builder's options from `options` and return them read."""
    taken = {}
    for key, (parameter, annotation) in _parameters(builder, without).items():
        if key in options:
            taken[parameter] = _read(key, annotation, options.pop(key))
    return taken


def _parameters(builder: Callable[..., Any], without: tuple[str, ...] = ()) -> Mapping[str, tuple[str, Any]]:
    """Option key -> (parameter, annotation): max_wait is written max-wait, return_ is written return."""
    function = builder.__init__ if inspect.isclass(builder) else builder
    hints = get_type_hints(function)
    return {
        name.rstrip("_").replace("_", "-"): (name, hints.get(name, str))
        for name, parameter in inspect.signature(builder).parameters.items()
        if name not in without and parameter.kind is not inspect.Parameter.VAR_KEYWORD
    }


def _read(key: str, annotation: Any, text: str) -> Any:
    """The text as what the annotation says."""
    if get_origin(annotation) in (Union, types.UnionType):
        annotation = next(part for part in get_args(annotation) if part is not types.NoneType)
    readers: dict[Any, Callable[[str], Any]] = {
        DurationNs: parse_duration_ns, DurationPs: parse_duration_ps, ByteCount: parse_bytes,
        int: _whole, bool: _truth, float: float, str: str,
    }  # fmt: skip
    try:
        if get_origin(annotation) is Literal:
            return _one_of(text, get_args(annotation))
        if annotation not in readers:
            raise ValueError(f"its annotation {annotation!r} is none that can be read from a text")
        return readers[annotation](text)
    except ValueError as error:
        raise ValueError(f"engine option {key}={text}: {error}") from None


def _whole(text: str) -> int:
    if not text.isdecimal() or len(text) > MOST_DIGITS:
        raise ValueError(f"write a whole number of at most {MOST_DIGITS} digits")
    return int(text)


def _truth(text: str) -> bool:
    return _one_of(text, ("true", "false")) == "true"


def _one_of(text: str, words: tuple[str, ...]) -> str:
    if text not in words:
        raise ValueError(f"write one of {', '.join(words)}")
    return text
