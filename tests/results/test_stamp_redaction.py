"""Nothing secret passes, however it is spelled and wherever it stands; what counts tokens passes unchanged."""

import json
import string
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from results.stamp.names import is_secret_name
from results.stamp.redaction import REDACTED, redact, redact_text, shorten_home

WORDS = (
    ("api", "key"), ("x", "api", "key"), ("openai", "api", "key"), ("access", "token"), ("hf", "token"), ("token",),
    ("client", "secret"), ("password",), ("db", "passwd"), ("auth", "token"), ("bearer", "token"), ("secret",),
    ("private", "key"), ("credentials",), ("aws", "secret", "access", "key"), ("x", "amz", "signature"),
    ("passphrase",), ("session", "token"), ("api", "key", "2"), ("proxy", "authorization"), ("cookie",),
    ("hub", "token", "prod"),
)  # fmt: skip
SPELLINGS = {
    "snake": "_".join,
    "KEBAB": lambda words: "-".join(words).upper(),
    "UPPER": lambda words: "_".join(words).upper(),
    "Title-Case": lambda words: "-".join(word.title() for word in words),
    "camelCase": lambda words: words[0] + "".join(word.title() for word in words[1:]),
    "dotted": ".".join,
    "percent": lambda words: "%5F".join(words),
}
HARMLESS = (
    "prompt-tokens", "output_tokens", "max_tokens", "prefill-token", "prefill_token_ps", "eos_token_id", "token_ids",
    "context_tokens", "tokens_per_step", "tokenizer", "tokenizer_sha256", "vocabulary", "kv_heads", "rate_rps",
    "keyboard", "OMP_NUM_THREADS", "pad_id", "think_ns", "author", "weights_sha256", "cost_source", "reads_prompts",
)  # fmt: skip
WHERE = {
    "assigned": "{name}={secret}",
    "in an engine": "./mine.py:Engine,slots=4,{name}={secret},batch=8",
    "in a query": "https://host.example/v1?model=m&{name}={secret}&stream=true",
    "as a flag with =": "--{name}={secret}",
    "as a flag": "run --{name} {secret} --rate 4",
    "as a header": "{name}: {secret}",
    "as JSON": '{{"a": 1, "{name}": "{secret}", "b": [2]}}',
    "as JSON in JSON": '{{\\"a\\": 1, \\"{name}\\": \\"{secret}\\"}}',
    "as Python": "{{'{name}': '{secret}', 'b': 2}}",
    "as YAML": "a: 1\n{name}: {secret}\nb: 2",
    "with blanks": "{name} = {secret}",
    "quoted": '{name}="{secret}"',
    "after a colon": "Server: {name}: {secret}",
}
secrets = st.builds("Zq7{}x".format, st.text(string.ascii_letters + string.digits + "+/=_.~-", min_size=9, max_size=40))
names = st.builds(
    lambda words, spell: SPELLINGS[spell](words), st.sampled_from(WORDS), st.sampled_from(sorted(SPELLINGS))
)


@settings(deadline=None)
@given(name=names, where=st.sampled_from(sorted(WHERE)), secret=secrets)
def test_a_named_secret_never_passes(name: str, where: str, secret: str) -> None:
    """Every spelling of every name, in every place of a text."""
    found = redact_text(WHERE[where].format(name=name, secret=secret))
    assert secret not in found
    assert REDACTED in found


@settings(deadline=None)
@given(name=names, secret=st.one_of(secrets, st.integers(10**6, 10**9)), depth=st.integers(0, 3))
def test_a_secret_never_passes_in_a_document(name: str, secret: Any, depth: int) -> None:
    """As the value of a key, as part of a list or mapping under it, as the second of a pair, as an argument."""
    for value in (secret, [secret], {"value": secret}):
        document: Any = {name: value}
        for level in range(depth):
            document = {"inner": [document]} if level % 2 else [document]
        assert str(secret) not in json.dumps(redact(document))
    for pair in ([name, str(secret)], ["--rate", "4", f"--{name}", str(secret), "--seed", "7"]):
        assert str(secret) not in json.dumps(redact(pair))


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_no_secret_passes_unchanged(name: str) -> None:
    """Counts of tokens, lengths and thread counts are what the stamp is for."""
    assert not is_secret_name(name)
    text = f"static,batch=8,{name}=0.128ms,wait=full"
    assert redact_text(text) == text
    assert redact({name: 257}) == {name: 257}


@settings(deadline=None)
@given(user=st.sampled_from(["", "user:", "a.b:"]), secret=secrets.filter(lambda text: "/" not in text))
def test_a_login_in_an_address_never_passes(user: str, secret: str) -> None:
    """Before the host of any address stands nothing that was given there."""
    found = redact_text(f"--target=https://{user}{secret}@host.example:8000/v1?x=1")
    assert secret not in found
    assert found.endswith("@host.example:8000/v1?x=1")
    if user:
        assert secret not in redact_text(f"proxy {user}{secret}@host.example:80")


@pytest.mark.parametrize(
    "text",
    [
        "Bearer 0123456789abcdef", "basic dXNlcjpwYXNzd29yZA==", "got sk-0123456789abcdef", "hf_0123456789abcdefgh",
        "ghp_0123456789abcdefghij", "AKIA0123456789ABCDEF", "eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl",
        "AIza0123456789abcdefghijklmnopqrstuvw", "glpat-0123456789abcdef", "xoxb-0123456789-abcdef",
        "-----BEGIN RSA PRIVATE KEY-----\n0123456789abcdef\n-----END RSA PRIVATE KEY-----",
        'Authorization: Digest username="u", response="0123456789abcdef"', "Cookie: a=1; sid=0123456789abcdef",
    ],
)  # fmt: skip
def test_well_known_shapes_never_pass(text: str) -> None:
    """Keys that say by their shape what they are need no name; a header's value goes to the end of its line."""
    found = redact_text(text)
    assert REDACTED in found
    assert "0123456789abcdef" not in found
    assert redact_text(found) == found


@pytest.mark.parametrize("flag", ["-H", "--header", "--headers"])
def test_no_header_keeps_its_value(flag: str) -> None:
    """Any header may carry a key, so only its name is kept."""
    assert redact([flag, "X-Mine: abcdef"]) == [flag, f"X-Mine: {REDACTED}"]
    assert redact([f"{flag}=X-Mine: abcdef"]) == [f"{flag}=X-Mine: {REDACTED}"]
    assert redact({"headers": {"X-Mine": "abcdef"}, "extra_headers": [["X", "abcdef"]]}) == {
        "headers": {"X-Mine": REDACTED}, "extra_headers": REDACTED,
    }  # fmt: skip


def test_what_is_left_out_of_a_list_is_only_the_secret() -> None:
    """The arguments around a secret stay as they were typed."""
    given_words = ["tokenload", "run", "--api-key", "abc", "--engine", "static,batch=8", "--prompt-tokens", "32:96"]
    assert redact(given_words) == [*given_words[:3], REDACTED, *given_words[4:]]


def test_a_switch_under_a_secret_name_passes() -> None:
    """True, false and null tell nothing."""
    assert redact({"api_key": None, "use_auth": True}) == {"api_key": None, "use_auth": True}


@settings(deadline=None)
@given(text=st.text(max_size=200))
def test_any_text_can_be_redacted_twice(text: str) -> None:
    """Redacting ends for any text, and once is enough."""
    once = redact_text(text)
    assert redact_text(once) == once


@pytest.mark.parametrize(
    "text",
    [
        "a" * 200_000, "!" * 200_000, "a=" * 50_000, "a:b@" * 20_000, "--a " * 50_000, "://" * 50_000,
        "password=" + " " * 200_000, "password=" + '"a' * 50_000, "password=" + ", a" * 50_000, "-----BEGIN " * 20_000,
    ],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_long_texts_take_no_longer_than_their_length(text: str) -> None:
    """No pattern goes back over what it has read: texts of any make end soon."""
    assert len(redact_text(text)) > 0


def test_the_home_folder_is_shortened_where_it_begins_a_path() -> None:
    """Nobody's name is in the stamp; a folder that only ends or goes on like the home is another."""
    value = {"a": ["/home/user/runs", "x=/home/user", "/old/home/user/x", "/home/user2", "/home/username/x"]}
    assert shorten_home(value, ["/home/user"]) == {
        "a": ["~/runs", "x=~", "/old/home/user/x", "/home/user2", "/home/username/x"]
    }
    assert shorten_home(value, ["/"]) == value
