"""Reading what servers tell: Prometheus' text line by line, and JSON documents."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from targets.observe import exposition
from targets.observe.documents import DOCUMENTS, read_document
from targets.observe.exposition import LONGEST_LINE_BYTES, MOST_SERIES, Exposition, canonical
from tests.targets.observe import pages


def read(text: str, *secrets: str) -> list[exposition.Sample]:
    """The samples of a page."""
    return Exposition(secrets).read(text).samples


@pytest.mark.parametrize(
    "text",
    [pages.vllm_page(257, 832, engines=2), pages.llamacpp_page(257, 3.23735), pages.SGLANG_PAGE, pages.TGI_PAGE],
)
def test_pages_of_real_servers_are_read_whole(text: str) -> None:
    """Every sample under the name on the page, the first time and when the series is known."""
    expected = [line for line in text.splitlines() if line and not line.startswith("#")]
    reader = Exposition()
    for _ in range(2):
        page = reader.read(text)
        assert page.skipped_rows == page.cut_rows == 0
        assert [(name, value) for name, _, value in page.samples] == [
            (line.partition("{")[0].partition(" ")[0], None if line.endswith(" nan") else float(line.split()[-1]))
            for line in expected
        ]


def test_labels_are_in_one_order() -> None:
    """Whatever order, spaces and last comma a server writes, the same series has the same labels."""
    lines = ('m{b="2",a="1"} 1', 'm{a="1",b="2",} 1', 'm{ a="1" , b="2" }  1 1795972641000')
    assert {read(line)[0] for line in lines} == {("m", '{a="1",b="2"}', 1.0)}
    assert canonical({}) == ""


@pytest.mark.parametrize(
    ("line", "labels"),
    [
        (r'm{a="x} 5"} 1', '{a="x} 5"}'),
        (r'm{a="quo\"te",b="back\\slash",c="new\nline"} 1', r'{a="quo\"te",b="back\\slash",c="new\nline"}'),
        ('m{a="x"} 1 # {trace="y"} 0.5', '{a="x"}'),
        ('m{a="\x1b[31m"} 1', '{a="\N{REPLACEMENT CHARACTER}[31m"}'),
        ('m{a="ü"} 1', '{a="ü"}'),
    ],
)
def test_odd_labels_are_kept(line: str, labels: str) -> None:
    """Brackets, quotes, exemplars: read as the grammar says; control characters never come through."""
    assert read(line) == [("m", labels, 1.0)]


@pytest.mark.parametrize("text", ["NaN", "+Inf", "-Inf", "1e999"])
def test_what_is_not_finite_is_missing(text: str) -> None:
    """The series is there and its value is none, the first time and the second."""
    reader = Exposition()
    for _ in range(2):
        assert reader.read(f"m {text}\n").samples == [("m", "", None)]


@pytest.mark.parametrize("bad", ["m", 'm{a="1" 5', "m{a=1} 5", 'm{a="1",a="2"} 5', "m 1_000", "m abc", "5 5", "}{ 1"])
def test_a_malformed_line_costs_itself_alone(bad: str) -> None:
    """It is counted, and its neighbours are read."""
    page = Exposition().read(f"# TYPE a counter\na 1\n{bad}\nb 2\n")
    assert page.samples == [("a", "", 1.0), ("b", "", 2.0)]
    assert page.skipped_rows == 1


@settings(deadline=None, max_examples=150)
@given(st.text(max_size=200))
def test_any_text_is_read_without_an_error(text: str) -> None:
    """What a server sends is untrusted: samples or counted lines, and the same again the second time."""
    reader = Exposition()
    first = reader.read(text)
    assert reader.read(text) == first
    for name, labels, value in first.samples:
        assert (name + labels).isprintable() or not name
        assert value is None or math.isfinite(value)


NAMES = st.from_regex(r"[a-z_:][a-z0-9_:]{0,8}", fullmatch=True)
LABELS = st.dictionaries(st.from_regex(r"[a-z]{1,5}", fullmatch=True), st.text('ab{},"\\= \n', max_size=5), max_size=3)


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(NAMES, LABELS, st.floats(allow_nan=False, allow_infinity=False)), max_size=5))
def test_the_short_way_equals_the_long_one(told: list[tuple[str, dict[str, str], float]]) -> None:
    """What is read by its known text is what the library reads."""
    text = "".join(f"{name}{canonical(labels)} {value!r}\n" for name, labels, value in told)
    expected = [
        (sample.name, canonical(sample.labels), float(sample.value))
        for line in text.split("\n")
        for family in text_string_to_metric_families(line + "\n")
        for sample in family.samples
    ]
    reader = Exposition()
    assert reader.read(text).samples == reader.read(text).samples == expected


def test_a_scrape_is_bounded() -> None:
    """Series above the limit are counted and dropped, and a line too long is none."""
    page = Exposition().read("".join(f"m{at} 1\n" for at in range(MOST_SERIES + 5)))
    assert (len(page.samples), page.cut_rows) == (MOST_SERIES, 5)
    assert Exposition().read('m{a="' + "x" * LONGEST_LINE_BYTES + '"} 1').skipped_rows == 1


def test_secrets_do_not_come_back() -> None:
    """A server that repeats the key, or shows one of its own, does not get it into a row."""
    text = 'm{header="it was abc-123-xyz",api_key="zzz",note="sk-abcdefghijkl",model="m"} 1\n'
    ((_, labels, _),) = read(text, "abc-123-xyz")
    assert labels.count("[redacted]") >= 3
    for secret in ("abc-123", "zzz", "abcdefghijkl"):
        assert secret not in labels
    assert 'model="m"' in labels


@pytest.mark.parametrize(
    ("kind", "document", "expected"),
    [
        ("slots", pages.LLAMACPP_SLOTS, {
            'llamacpp_slots:processing{slot="0"}': 1, 'llamacpp_slots:processing{slot="1"}': 0,
            'llamacpp_slots:speculative{slot="0"}': 0, 'llamacpp_slots:speculative{slot="1"}': 0,
            'llamacpp_slots:n_ctx{slot="0"}': 512, 'llamacpp_slots:n_ctx{slot="1"}': 512,
            'llamacpp_slots:n_decoded{slot="0"}': 17, 'llamacpp_slots:n_decoded{slot="1"}': 0,
        }),
        ("slots", [{"state": 1}, {"state": 0}],
         {'llamacpp_slots:processing{slot="0"}': 1, 'llamacpp_slots:processing{slot="1"}': 0}),
        ("props", pages.LLAMACPP_PROPS, {"llamacpp_props:total_slots": 4, "llamacpp_props:n_ctx": 512}),
        ("load", {"server_load": 3}, {"vllm_load:server_load": 3}),
        ("get_server_info", pages.SGLANG_INFO, {
            "sglang_info:max_running_requests": 48, "sglang_info:random_seed": 1, "sglang_info:eos_token": 5,
            "sglang_info:tp_size": 1, 'sglang_info:last_gen_throughput{state="0"}': 12.5,
        }),
    ],
)  # fmt: skip
def test_documents_become_series(kind: str, document: Any, expected: dict[str, float]) -> None:
    """Numbers alone, under names of their own; no text and nothing that may be a secret."""
    page = read_document(kind, json.loads(json.dumps(document)))
    assert {name + labels: value for name, labels, value in page.samples} == expected


@pytest.mark.parametrize("kind", DOCUMENTS)
@pytest.mark.parametrize(
    "document", [None, [], {}, 5, "x", [1, None], {"internal_states": "x"}, {"a": 10**400}, {"a": math.nan}]
)
def test_unexpected_documents_tell_nothing_wrong(kind: str, document: Any) -> None:
    """Whatever JSON comes, no error and no number that was not there."""
    assert all(value is None for _, _, value in read_document(kind, document).samples)
