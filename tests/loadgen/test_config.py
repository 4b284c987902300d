"""RunConfig: one table of options, from which texts become values and values texts again."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.config import RunConfig, from_texts, key_of, options, to_json
from loadgen.config_table import (
    ARRIVALS,
    CLOCKS,
    CONNECTIONS,
    CONTEXT_POLICIES,
    GROUPS,
    PRESETS,
    PROMPTS_AS,
    TIME_UNITS,
)
from results.slo import parse_slo

COUNTS = st.integers(1, 10**8)
RATES = st.floats(min_value=1e-6, max_value=1e9)
CVS = st.floats(0.01, 100)
DURATIONS_NS = st.integers(0, 10**15)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
RANGES = st.tuples(COUNTS, COUNTS).map(sorted).map(tuple)
COLUMNS = st.lists(
    st.tuples(st.sampled_from(["time", "prompt", "output"]), st.text("abcXYZ_ .", min_size=1, max_size=5)),
    min_size=1,
    max_size=3,
    unique_by=lambda pair: pair[0],
).map(tuple)
LIMITS = st.builds(
    "{}<={}{}".format, st.sampled_from(["ttft", "tpot", "e2e", "stall"]), COUNTS, st.sampled_from(["us", "ms", "s"])
)
RUN = {
    "prompt_tokens": RANGES,
    "output_tokens": RANGES,
    "allow_empty": st.booleans(),
    "seed": st.integers(0, 2**70),
    "engine": TEXTS,
    "clock": st.sampled_from(CLOCKS),
    "timeout_ns": st.none() | DURATIONS_NS,
    "drain_ns": st.none() | DURATIONS_NS,
    "out": TEXTS,
    "name": st.none() | TEXTS,
}
TRACE = {
    "trace": TEXTS,
    "columns": st.none() | COLUMNS,
    "time_unit": st.none() | st.sampled_from(TIME_UNITS),
    "window_ns": st.none()
    | st.tuples(DURATIONS_NS, DURATIONS_NS).filter(lambda pair: pair[0] != pair[1]).map(sorted).map(tuple),
    "limit": st.none() | COUNTS,
    "fill_requests": st.none() | st.integers(0, 50),
    "cooldown_requests": st.integers(0, 50),
    "loop": st.none() | COUNTS,
    "context": st.none() | st.tuples(COUNTS, st.sampled_from(CONTEXT_POLICIES)),
}
URLS = st.sampled_from(["http://127.0.0.1:8000", "https://example.org/base/v1", "http://[::1]:80"])
NAMES = st.none() | st.text("abcXYZ_./", min_size=1, max_size=8)
TARGET = {
    "target": URLS,
    "api": st.sampled_from(["openai-chat", "./mine.py:Api"]),
    "served_model": NAMES,
    "header": st.lists(st.tuples(st.sampled_from(["X-A", "User-Agent"]), st.text("abc; ", min_size=1).map(str.strip)))
    .map(tuple),
    "body": st.none() | st.just('{"top_p": 0.9}'),
    "no_stream": st.booleans(),
    "prompt_as": st.sampled_from(PROMPTS_AS),
    "max_tokens_field": NAMES,
    "tokenizer": NAMES,
    "same_bytes": st.booleans(),
    "connections": st.sampled_from(CONNECTIONS),
    "keep_alive_ns": DURATIONS_NS,
    "unix_socket": NAMES,
    "connect_timeout_ns": DURATIONS_NS,
    "first_timeout_ns": st.none() | DURATIONS_NS,
    "warmup_requests": st.none() | st.just(0) | COUNTS,
    "metrics_url": st.lists(URLS).map(tuple),
    "slots": st.none() | COUNTS,
    "stop_after_failures": st.none() | COUNTS,
    "processes": COUNTS,
    "no_calibrate": st.booleans(),
}  # fmt: skip


@st.composite
def configs(draw: st.DrawFn) -> RunConfig:
    """Any config that does not contradict itself."""
    values: dict[str, Any] = {name: draw(strategy) for name, strategy in RUN.items()}
    kind = draw(st.sampled_from(["open", "gamma", "burst", "closed", "trace", "seed1"]))
    if kind == "trace":
        values |= {name: draw(strategy) for name, strategy in TRACE.items()}
        del values["prompt_tokens"], values["output_tokens"]
        values[draw(st.sampled_from(["speed", "rate_rps"]))] = draw(st.none() | RATES)
    elif kind == "closed":
        values |= {"arrival": "closed", "users": draw(COUNTS), "think_ns": draw(st.none() | DURATIONS_NS)}
        values |= {"fill_requests": draw(st.none() | st.integers(0, 50))}
    elif kind == "burst":
        values |= {"arrival": "burst", "requests": draw(st.none() | COUNTS)}
    elif kind == "seed1":
        del values["prompt_tokens"], values["output_tokens"]
        values |= {"preset": "seed1", "rate_rps": draw(RATES), "requests": draw(st.none() | COUNTS)}
    else:
        values["arrival"] = (
            "gamma" if kind == "gamma" else draw(st.sampled_from(["poisson", "conditioned", "constant"]))
        )
        values |= {"cv": draw(CVS) if kind == "gamma" else None, "rate_rps": draw(RATES)}
        values[draw(st.sampled_from(["requests", "duration_ns"]))] = draw(st.none() | COUNTS)
    if draw(st.booleans()):
        del values["engine"]
        values |= {name: draw(strategy) for name, strategy in TARGET.items()}
        one_of = [{}, {"key_env": "A"}, {"key_file": "f"}, {"no_verify": True}, {"ca_file": "c"}]
        values |= draw(st.sampled_from(one_of))
        values |= {"clock": "real", "max_concurrency": None if kind == "closed" else draw(st.none() | COUNTS)}
    return RunConfig(**values)


def refusal(**texts: Any) -> str:
    """Why these options are refused."""
    with pytest.raises(ValueError) as caught:
        from_texts({key.replace("_", "-"): text for key, text in texts.items()})
    message = str(caught.value)
    assert message
    assert "\n" not in message
    return message


@settings(deadline=None, max_examples=300)
@given(configs())
def test_a_saved_config_is_the_config(config: RunConfig) -> None:
    """from_texts(to_json(c)) == c: what is saved with a run makes the same run, through JSON text."""
    saved = json.loads(json.dumps(to_json(config)))
    assert from_texts(saved) == config
    for key, text in saved.items():
        assert isinstance(text, list if key in ("header", "metrics-url") else str)


@settings(deadline=None)
@given(LIMITS)
def test_saved_limits_are_the_limits(limits: str) -> None:
    """An SLO comes back from the saved config as it was read."""
    config = from_texts({"rate": "4", "slo": limits})
    assert from_texts(to_json(config)) == config


@pytest.mark.parametrize("limits", ["ttft<=1.234567ms", "e2e<=12345.678901s", "tpot<=0.0015us"])
def test_saved_limits_keep_every_digit(limits: str) -> None:
    """A limit of many digits is neither rounded nor made unreadable by being saved."""
    config = from_texts({"rate": "4", "slo": limits})
    assert parse_slo(config.slo or "").limits_ns == parse_slo(limits).limits_ns
    assert from_texts(to_json(config)) == config


def test_what_is_left_at_its_default_is_not_saved() -> None:
    """A saved config holds what a person would type, and nothing else."""
    assert to_json(from_texts({"rate": "4"})) == {"rate": "4.0"}
    assert to_json(from_texts({"rate": "4", "seed": "7", "clock": "charged"})) == {"rate": "4.0"}
    assert to_json(from_texts({"rate": "0.25", "prompt-tokens": "64", "timeout": "1.5s", "requests": "9"})) == {
        "rate": "0.25", "prompt-tokens": "64", "timeout": "1500ms", "requests": "9",
    }  # fmt: skip


def test_every_row_of_the_table_says_what_it_is() -> None:
    """Each option has a flag of its own, a help line, and a unit or a list of choices; its group has a heading."""
    table = options()
    assert len({option.flag for _, option in table.values()}) == len(table)
    for name, (_, option) in table.items():
        assert option.flag.startswith("--"), name
        assert option.help.strip(), name
        assert option.unit or option.choices or option.is_flag, name
        assert option.group in GROUPS, name
        assert key_of(option) == option.flag[2:]


def test_every_default_is_written_and_read_as_itself() -> None:
    """What help shows as a default is a text that gives the default."""
    for name, (one, option) in options().items():
        for value in one.default if option.many else [one.default]:
            if value is not None:
                assert option.parse(option.show(value)) == value, name


def test_every_choice_is_accepted_and_nothing_else() -> None:
    """Where there are choices, each of them is read, and another word is refused with the list."""
    for _, option in options().values():
        for choice in option.choices:
            assert option.parse(choice) == choice
        if option.choices:
            with pytest.raises(ValueError, match=f"'nonsense' is not one of {', '.join(option.choices)}"):
                option.parse("nonsense")


@pytest.mark.parametrize(
    ("texts", "fields"),
    [
        ({"rate": "4"}, {"arrival": "poisson", "rate_rps": 4.0, "requests": None}),
        ({"rate": "4", "duration": "60s"}, {"duration_ns": 60 * 10**9}),
        ({"rate": "4", "prompt-tokens": "10"}, {"prompt_tokens": (10, 10)}),
        ({"rate": "4", "output-tokens": "1:2"}, {"output_tokens": (1, 2)}),
        ({"arrival": "gamma", "cv": "2", "rate": "1e2"}, {"cv": 2.0, "rate_rps": 100.0}),
        ({"arrival": "closed", "users": "8", "think": "0s"}, {"users": 8, "think_ns": 0}),
        ({"arrival": "burst"}, {"arrival": "burst", "rate_rps": None}),
        ({"preset": "seed1", "arrival": "burst"}, {"preset": "seed1"}),
        ({"trace": "a.csv"}, {"trace": "a.csv", "rate_rps": None}),
        ({"trace": "a.csv", "arrival": "burst"}, {"arrival": "burst"}),
        ({"trace": "a", "columns": "time=t,prompt=p"}, {"columns": (("time", "t"), ("prompt", "p"))}),
        ({"trace": "a", "context": "1024"}, {"context": (1024, "error")}),
        ({"trace": "a", "context": "1024:clip-prompt"}, {"context": (1024, "clip-prompt")}),
        ({"trace": "a", "window": "0..5m"}, {"window_ns": (0, 300 * 10**9)}),
        ({"trace": "a", "limit": "9", "loop": "2"}, {"limit": 9, "loop": 2}),
        ({"rate": "4", "slo": " e2e<=2s "}, {"slo": "e2e<=2s"}),
        ({"rate": "4", "timeout": "30s", "drain": "1m"}, {"timeout_ns": 30 * 10**9, "drain_ns": 60 * 10**9}),
    ],
)  # fmt: skip
def test_texts_become_values(texts: dict[str, str], fields: dict[str, Any]) -> None:
    """What a person types, field by field."""
    config = from_texts(texts)
    assert {name: getattr(config, name) for name in fields} == fields


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({}, "--arrival poisson needs --rate"),
        ({"arrival": "constant"}, "--arrival constant needs --rate"),
        ({"arrival": "gamma", "rate": "4"}, "--arrival gamma needs --cv"),
        ({"rate": "4", "cv": "2"}, "--cv needs --arrival gamma"),
        ({"arrival": "closed"}, "--arrival closed needs --users"),
        ({"rate": "4", "users": "4"}, "--users needs --arrival closed"),
        ({"rate": "4", "think": "1s"}, "--think needs --arrival closed"),
        ({"arrival": "burst", "rate": "4"}, "has no rate"),
        ({"arrival": "closed", "users": "2", "rate": "4"}, "has no rate"),
        ({"arrival": "burst", "duration": "4s"}, "--arrival burst needs --requests"),
        ({"arrival": "closed", "users": "2", "duration": "4s"}, "--arrival closed needs --requests"),
        ({"rate": "4", "requests": "9", "duration": "4s"}, "--requests or --duration, not both"),
        ({"trace": "a", "speed": "2", "rate": "4"}, "--speed or --rate, not both"),
        ({"trace": "a", "preset": "seed1"}, "--trace or --preset, not both"),
        ({"trace": "a", "requests": "9"}, "--limit"),
        ({"trace": "a", "duration": "9s"}, "--window"),
        ({"trace": "a", "arrival": "closed", "users": "4"}, "trace"),
        *(
            ({"rate": "4", name: text}, f"--{name} needs --trace")
            for name, text in [("window", "0..5m"), ("limit", "9"), ("loop", "2"), ("context", "99"),
                               ("columns", "time=a,prompt=b,output=c"), ("time-unit", "s")]
        ),
        ({"arrival": "burst", "speed": "2"}, "--speed needs --trace"),
        ({"rate": "4", "target": "http://a", "engine": "static"}, "--engine or --target, not both"),
        ({"rate": "4", "target": "http://a", "clock": "charged"}, "a server runs in real time"),
        ({"rate": "4", "target": "http://a", "key-env": "A", "key-file": "f"}, "--key-env or --key-file, not both"),
        ({"rate": "4", "target": "http://a", "no-verify": "true", "ca-file": "f"}, "--no-verify or --ca-file"),
        ({"arrival": "closed", "users": "2", "target": "http://a", "max-concurrency": "2"}, "has its --users"),
        *(
            ({"rate": "4", name: text}, f"--{name} needs --target")
            for name, text in [("served-model", "m"), ("key-env", "A"), ("slots", "4"), ("processes", "2"),
                               ("no-stream", "true"), ("header", ["A: b"]), ("max-concurrency", "3")]
        ),
    ],
    ids=lambda one: " ".join(f"{key}={text}" for key, text in one.items()) if isinstance(one, dict) else "",
)  # fmt: skip
def test_options_that_contradict_each_other_are_refused(texts: dict[str, str], message: str) -> None:
    """A combination that cannot be meant is refused in one line that names the options."""
    assert message in refusal(**texts)


@pytest.mark.parametrize(
    "texts",
    [
        {"preset": "seed1", "rate": "4", "duration": "5s"},
        {"preset": "seed1", "arrival": "closed", "users": "2"},
        {"preset": "seed1", "arrival": "gamma", "cv": "2", "rate": "4"},
        {"preset": "seed1", "arrival": "constant", "rate": "4"},
        {"preset": "seed1", "rate": "4", "prompt-tokens": "9"},
        {"preset": "seed1", "rate": "4", "output-tokens": "9"},
        {"trace": "a", "arrival": "gamma", "cv": "2"},
        {"trace": "a", "arrival": "constant"},
        {"trace": "a", "prompt-tokens": "9"},
        {"trace": "a", "output-tokens": "9"},
    ],
    ids=lambda one: " ".join(f"{key}={text}" for key, text in one.items()),
)
def test_an_option_that_would_be_ignored_is_refused(texts: dict[str, str]) -> None:
    """A trace and a preset have times and lengths of their own: an option that cannot take effect is not accepted."""
    refusal(**texts)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("rate", "0"), ("rate", "-4"), ("rate", "four"), ("rate", "inf"), ("rate", "nan"), ("rate", ""),
        ("requests", "0"), ("requests", "1.5"), ("requests", "-3"), ("duration", "60"), ("duration", "60 parsecs"),
        ("prompt-tokens", "96:32"), ("prompt-tokens", "0"), ("output-tokens", "16-48"), ("arrival", "uniform"),
        ("seed", "-1"), ("seed", "x"), ("clock", "sundial"), ("timeout", "5"), ("slo", "fast"), ("slo", ""),
        ("window", "5m"), ("columns", "time"), ("columns", "when=t"),
        ("columns", "time="), ("time-unit", "fortnight"), ("speed", "0"), ("loop", "0"), ("limit", "none"),
        ("cv", "0"), ("users", "0"), ("think", "1"), ("preset", "seed9"),
        ("target", "8000"), ("target", "ftp://a"), ("target", "http://"), ("target", "http://a:99999"),
        ("body", "[1]"), ("body", "{"), ("body", '{"a": NaN}'), ("body", '{"a": 1e999}'),
        ("no-stream", "yes"), ("prompt-as", "images"), ("processes", "0"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_read_is_named_with_its_option(key: str, text: str) -> None:
    """The line begins with the flag and holds the value."""
    message = refusal(**{key: text})
    assert message.startswith(f"--{key}: ")
    assert text in message


@pytest.mark.parametrize(("text", "named"), [("0:drop", "'0'"), ("99:guess", "'guess'"), ("much", "'much'")])
def test_a_context_that_cannot_be_read_is_named(text: str, named: str) -> None:
    """Of tokens and policy, the one that is wrong is named."""
    message = refusal(trace="a", context=text)
    assert message.startswith("--context: ")
    assert named in message


@pytest.mark.parametrize("url", ["http://user:hunter2@a", "http://a/?key=hunter2", "http://a/#hunter2"])
def test_a_secret_in_an_address_is_refused_and_not_repeated(url: str) -> None:
    """Addresses are saved with a run, so that no key may stand in one; the refusal does not repeat it either."""
    message = refusal(target=url, rate="4")
    assert "--key-env" in message
    assert "hunter2" not in message


@pytest.mark.parametrize(
    "header", ["Authorization: hunter2", "X-Api-Key: hunter2", "Cookie: hunter2", "no header hunter2"]
)
def test_a_secret_in_a_header_is_refused_and_not_repeated(header: str) -> None:
    """Headers are saved with a run: those that sound secret take their value from the environment."""
    message = refusal(target="http://a", rate="4", header=[header])
    assert message.startswith("--header: ")
    assert "hunter2" not in message


def test_a_header_from_the_environment_is_saved_by_the_variables_name() -> None:
    """What is saved is where the secret stands, not the secret."""
    config = from_texts({"target": "http://a", "rate": "4", "header": ["Authorization: env:MY_KEY"]})
    assert config.header == (("Authorization", "env:MY_KEY"),)
    assert to_json(config)["header"] == ["Authorization: env:MY_KEY"]


def test_a_server_runs_in_real_time() -> None:
    """With --target the clock is the wall's, without being asked for."""
    assert from_texts({"rate": "4", "target": "http://a"}).clock == "real"


def test_an_unknown_option_is_named() -> None:
    """A key that is in no table is refused with those that are; a value must be a text."""
    assert "unknown option 'rats'" in refusal(rats="4")
    with pytest.raises(ValueError, match="option 'rate' must be a text") as caught:
        from_texts({"rate": 4})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a": "\\ud800"}'])
def test_a_body_that_cannot_be_sent_is_refused_in_a_short_line(text: str) -> None:
    """Nested without end, or with halves of characters."""
    message = refusal(body=text)
    assert message.startswith("--body: ") and message.endswith("is not JSON") and len(message) < 300


def test_the_catalogues_are_the_specified_ones() -> None:
    """Six arrivals, three clocks, four context policies; the first text's preset is among the presets."""
    assert ARRIVALS == ("poisson", "conditioned", "constant", "gamma", "burst", "closed")
    assert set(CLOCKS) == {"real", "charged", "modelled"}
    assert set(CONTEXT_POLICIES) == {"error", "drop", "clip-prompt", "clip-output"}
    assert PRESETS[0] == "seed1"
    assert RunConfig().seed == 7
    assert RunConfig().clock == "charged"
    assert (RunConfig().prompt_tokens, RunConfig().output_tokens) == ((32, 96), (16, 48))
    assert RunConfig().slo == "ttft<=1s,tpot<=50ms"


def test_a_config_is_frozen() -> None:
    """A config cannot be changed; a changed one is another."""
    config = from_texts({"rate": "4"})
    with pytest.raises(AttributeError):
        config.seed = 8  # type: ignore[misc]
    assert replace(config, seed=8) != config
