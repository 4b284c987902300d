"""Text from files and servers is text: no markup, no template, no script, no control character comes through."""

import json
import re
import shutil
from pathlib import Path

import pytest

from results.report import write_report
from results.report.plain import chart_label, joined, plain, script_json
from tests.results.report.folders import INVALID, edit, make_run, make_sweep
from tests.results.report.reading import read

HOSTILE = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(2)>",
    "{{ 'zq' * 4 }}{% raw %}",
    "\x1b[31mred\x1b]0;title\x07",
    '"><svg onload=alert(3)>',
    "a&lt;b,\u202eevil",
    "<a href='javascript:alert(4)'>x</a>",
    "-->]]>%{customdata}<extra></extra>",
)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sweep(tmp_path_factory.mktemp("base"), loads=("16",))


def hostile_sweep(base: Path, out: Path, text: str) -> Path:
    """A sweep in which every text that may be foreign is this one."""
    sweep = shutil.copytree(base, out / "sweep")
    told = json.loads((sweep / "sweep.json").read_text())
    for point in told["points"]:
        point["engine"] = f"{point['engine']},note={text}"
    told.update(engines=[point["engine"] for point in told["points"][:3]], command=text, status=text)
    (sweep / "sweep.json").write_text(json.dumps(told))
    reason = {"code": text, "text": text, "remedy": text}
    verdict = {**INVALID, "label": text, "suffices_for": text, "invalid": [reason], "warnings": [reason],
               "withheld": {text: reason}, "checks": {text: text}}  # fmt: skip
    for run in sorted(sweep.glob("points/*/run.json")):
        executor = {"name": text, "parameters": text}
        engine = {**json.loads(run.read_text())["engine"], "model": text, "executor": executor, text: text}
        edit(run, verdict=verdict, engine=engine, tokenload_version=text)
        groups = {text: {"fields": {text: text, "cpu_model": text}}}
        edit(run.parent / "conditions.json", **{text: text, "groups": groups})
    return sweep


@pytest.fixture(scope="module")
def plain_page(base: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_report(hostile_sweep(base, tmp_path_factory.mktemp("plain"), "harmless")).read_text()


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_foreign_text_is_only_text(base: Path, tmp_path: Path, text: str, plain_page: str) -> None:
    """The page has the same elements as with a harmless text, and no control character is left in it."""
    html = write_report(hostile_sweep(base, tmp_path, text)).read_text()
    found, usual = read(html), read(plain_page)
    strange = {"script", "img", "svg", "iframe", "a", "style"}
    ours = [tag for tag, _ in usual.elements if tag in strange]
    assert [tag for tag, _ in found.elements if tag in strange] == ours
    assert not [name for _, attributes in found.elements for name in attributes if name.startswith("on")]
    assert plain(text).strip() in found.text
    assert "zqzqzqzq" not in found.text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", html)


def test_error_texts_of_failed_requests_are_shown_and_escaped(tmp_path: Path) -> None:
    """What a server said when it failed is the first thing a person asks for."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    run = make_run(tmp_path)
    table = pq.read_table(run / "requests.parquet")
    rows = table.num_rows
    errors = pa.array(["<b>\x1b[1mout of memory</b>"] + [None] * (rows - 1), type=pa.string())
    status = pa.array(["engine_error"] + ["ok"] * (rows - 1)).dictionary_encode()
    for name, column in (("error", errors), ("status", status)):
        table = table.set_column(table.column_names.index(name), name, column)
    pq.write_table(table, run / "requests.parquet")
    found = read(write_report(run).read_text())
    assert "1 of 60 requests failed (1 engine_error: “<b>␛[1mout of memory</b>”)" in found.text
    assert "changed since the run was written: requests.parquet" in found.text


def test_json_in_a_script_element_cannot_end_it() -> None:
    """And it is JSON still."""
    document = {"</script><!--": ["<script>", "\u2028", "&amp;"]}
    text = script_json(document)
    assert "<" not in text and ">" not in text and "&" not in text and text.isascii()
    assert json.loads(text) == document


def test_control_characters_are_shown_as_what_they_are() -> None:
    """ESC as its picture, a directing character as its number; lines stay lines."""
    assert plain("a\x1b[0m\r\n\tb") == "a␛[0m␍\n\tb"
    assert plain("x\u202ey\x7f\x9b") == "x⟨U+202E⟩y⟨U+007F⟩⟨U+009B⟩"
    assert chart_label("<a href='x'>&\x1b") == "&lt;a href='x'&gt;&amp;␛"


def test_words_are_joined_as_in_a_sentence() -> None:
    """Commas, and a word before the last."""
    assert [joined(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]
