"""Importers: small rows of each format, and one line for whatever is wrong with a file."""

import gzip
import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from loadgen.traces.catalog import FORMATS, read_trace
from results.columns import NULL

AZURE_2023 = (
    b"TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
    b"2023-11-16 18:15:46.6805900,374,44\r\n"
    b"2023-11-16 18:15:50.9951690,396,109"
)
AZURE_2024 = (
    b"TIMESTAMP,ContextTokens,GeneratedTokens\n"
    b"2024-05-12 00:00:00.001163+00:00,1452,3\n"
    b"2024-05-12 00:00:01+00:00,584,1\n"
)
CSV = b"time,prompt_tokens,output_tokens\n0.5,10,20\n0.75,30,40\n"
JSONL = (
    b'{"timestamp": 500, "input_length": 10, "output_length": 20}\n'
    b'{"timestamp":750,"input_length":30,"output_length":40}\n'
)
NEUTRAL = b'{"format":"loadtrace/1"}\n{"i":0,"at_ns":0,"in":10,"out":20}\n{"i":1,"at_ns":250000000,"in":30,"out":40}\n'
SAMPLES = {
    "azure-llm": ("t.csv", AZURE_2023, None),
    "loadtrace": ("t.jsonl", NEUTRAL, None),
    "csv": ("t.csv", CSV, "s"),
    "jsonl": ("t.jsonl", JSONL, "ms"),
}


def write(folder: Path, content: bytes, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def refusal(path: Path, **options: object) -> str:
    with pytest.raises(ValueError) as caught:
        read_trace(path, **options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("zipped", [False, True])
def test_every_format_is_read_by_name_and_recognised(name: str, zipped: bool, tmp_path: Path) -> None:
    """Every format of the table reads its sample, named or not, compressed or not, to the same columns."""
    file, content, unit = SAMPLES[name]
    data = gzip.compress(content) if zipped else content
    path = write(tmp_path, data, file + ".gz" * zipped)
    for format_name in (None, name):
        trace = read_trace(path, format_name, time_unit=unit)
        assert len(trace) == 2
        assert trace.at_ns[0] == 0
        assert trace.header["format"].split("/")[0] == name
        assert trace.header["name"] == "t"
        assert trace.header["source"] == {
            "file": path.name, "sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)
        }  # fmt: skip
        assert trace.header["rows"]["read"] == trace.header["rows"]["kept"] == 2
        assert trace.header["warnings"] == []
        assert str(tmp_path) not in repr(trace.header)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_has_one_line_of_help(name: str) -> None:
    """Every format has one line of help, shown by the command line."""
    assert FORMATS[name][1]
    assert "\n" not in FORMATS[name][1]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("content", [b"", b"\n\n"])
def test_every_format_refuses_an_empty_file(name: str, content: bytes, tmp_path: Path) -> None:
    """An empty file is said to be empty, whatever it should have been."""
    assert "is empty" in refusal(write(tmp_path, content), format=name)


def test_azure_2023_is_exact(tmp_path: Path) -> None:
    """Seven decimals, CRLF and a last line without an end are read to exact nanoseconds."""
    trace = read_trace(write(tmp_path, AZURE_2023))
    assert trace.header["time"] == {"unit_in_source": "iso", "origin_ns": 1_700_158_546_680_590_000, "tz": "naive"}
    assert trace.at_ns.tolist() == [0, 4_314_579_000]
    assert trace.prompt_tokens.tolist() == [374, 396]
    assert trace.output_tokens.tolist() == [44, 109]
    assert trace.source_row.tolist() == [0, 1]


def test_azure_2024_has_six_decimals_or_none(tmp_path: Path) -> None:
    """A time without microseconds is a row like any other."""
    trace = read_trace(write(tmp_path, AZURE_2024))
    assert trace.at_ns.tolist() == [0, 998_837_000]
    assert trace.header["time"]["tz"] == "+00:00"


def test_a_byte_order_mark_is_no_part_of_the_header(tmp_path: Path) -> None:
    """A file that begins with a byte order mark is recognised all the same."""
    assert read_trace(write(tmp_path, b"\xef\xbb\xbf" + AZURE_2023)).header["format"] == "azure-llm"


def test_bad_rows_stop_the_import_with_lines_and_count(tmp_path: Path) -> None:
    """A row that cannot be read stops the import: the first ten lines and the count are named."""
    rows = b"".join(b"2023-11-16 18:15:46.0,x,1\n" for _ in range(12))
    text = refusal(write(tmp_path, AZURE_2023 + b"\r\n" + rows))
    assert "12 rows cannot be read, at line 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, ..." in text
    assert "line 4: 'x' is not a count of tokens" in text


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (b"2023-11-16 18:15:46.0,1", "2 fields, not 3"),
        (b"2023-11-16 18:15:46.0,1,2,3", "4 fields, not 3"),
        (b"2023-11-16 18:15:46.0,-1,2", "'-1' is not a count"),
        (b"2023-11-16 18:15:46.0,nan,2", "'nan' is not a count"),
        (b"2023-13-16 18:15:46.0,1,2", "'2023-13-16' is not a day"),
        (b"2223-11-16 18:15:46.0,1,2", "'2223-11-16 18:15:46.0' is over a century away"),
    ],
)
def test_a_bad_azure_row_says_why(row: bytes, reason: str, tmp_path: Path) -> None:
    """Every kind of bad row is named with its line."""
    assert f"1 row cannot be read, at line 4 (line 4: {reason}" in refusal(write(tmp_path, AZURE_2023 + b"\n" + row))


def test_times_with_and_without_an_offset_do_not_mix(tmp_path: Path) -> None:
    """Naive times beside times with an offset are ambiguous, and refused."""
    assert "some times have an offset" in refusal(write(tmp_path, AZURE_2023 + b"\n2023-11-16 18:15:51Z,1,1"))


def test_a_truncated_gzip_file_is_no_shorter_trace(tmp_path: Path) -> None:
    """A compressed file that was cut off is refused, not read as far as it goes."""
    data = gzip.compress(CSV * 100)
    assert "ends early or is damaged" in refusal(write(tmp_path, data[:-12], "t.csv.gz"), time_unit="s")


def test_a_file_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    """A file in another encoding is refused with the byte and a remedy."""
    assert "is not UTF-8 text (byte 0xff)" in refusal(write(tmp_path, CSV + b"\xff"), time_unit="s")


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    """What cannot be opened is a user's error, in one line."""
    assert "No such file" in refusal(tmp_path / "none.csv")
    assert "Is a directory" in refusal(tmp_path)


def test_a_pointer_to_the_data_is_not_the_data(tmp_path: Path) -> None:
    """A Git LFS pointer in place of the file is recognised."""
    assert "git lfs pull" in refusal(write(tmp_path, b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"))


def test_an_unclear_file_asks_for_its_format(tmp_path: Path) -> None:
    """Neither first line nor suffix: the formats are listed."""
    assert "name azure-llm, loadtrace, csv, jsonl" in refusal(write(tmp_path, CSV, "t.txt"))
    assert "name azure-llm, loadtrace, csv, jsonl" in refusal(write(tmp_path, CSV), format="parquet")


def test_csv_names_its_columns_in_any_order(tmp_path: Path) -> None:
    """Columns are found by the names given, and those that are not used are listed."""
    path = write(tmp_path, b'out,note,"in",ts\n20,"a, b",10,1.000000001\n40,,30,1.5\n')
    trace = read_trace(path, columns={"time": "ts", "prompt": "in", "output": "out"}, time_unit="s")
    assert trace.at_ns.tolist() == [0, 499_999_999]
    assert trace.prompt_tokens.tolist() == [10, 30]
    assert trace.output_tokens.tolist() == [20, 40]
    assert trace.header["importer"]["options"]["ignored_columns"] == ["note"]
    assert trace.header["time"] == {"unit_in_source": "s", "origin_ns": 1_000_000_001, "tz": None}


def test_an_unknown_column_names_those_present(tmp_path: Path) -> None:
    """A column that is not there is answered with those that are."""
    text = refusal(write(tmp_path, CSV), columns={"time": "when"}, time_unit="s")
    assert "no column 'when': name time=COLUMN out of time, prompt_tokens, output_tokens" in text
    text = refusal(write(tmp_path, JSONL, "t.jsonl"), columns={"prompt": "tokens"}, time_unit="s")
    assert "out of timestamp, input_length, output_length" in text
    assert "'length' is not a column's role" in refusal(write(tmp_path, CSV), columns={"length": "time"})


def test_a_column_name_cannot_break_the_line(tmp_path: Path) -> None:
    """A header with line ends in its names, or with very many names, is still answered in one line."""
    assert r"'a\nb'" in refusal(write(tmp_path, b'"a\nb",c\n1,2\n'), time_unit="s")
    many = ",".join(f"c{number}" for number in range(99))
    assert refusal(write(tmp_path, many.encode() + b"\n"), time_unit="s").endswith("c29, ...")


@pytest.mark.parametrize("row", [b"1,2", b"1,2,3,4"])
def test_a_row_of_another_width_stops_the_import(row: bytes, tmp_path: Path) -> None:
    """A row with fields too few or too many is not filled or cut."""
    assert "fields, not 3" in refusal(write(tmp_path, CSV + row), time_unit="s")


def test_a_doubtful_column_is_not_guessed(tmp_path: Path) -> None:
    """Two columns that could both be meant are named; none is taken."""
    path = write(tmp_path, b"time,prompt_tokens,input_tokens,output_tokens\n1,2,3,4\n")
    assert "prompt could be any of prompt_tokens, input_tokens: name one" in refusal(path, time_unit="s")
    assert read_trace(path, columns={"prompt": "input_tokens"}, time_unit="s").prompt_tokens.tolist() == [3]


@pytest.mark.parametrize(
    ("column", "value", "unit"), [("at_ns", "5", "ns"), ("time_ms", "5", "ms"), ("time", "2024-05-12 00:00:00", "iso")]
)
def test_a_unit_may_be_said_by_the_file(column: str, value: str, unit: str, tmp_path: Path) -> None:
    """A column that carries its unit, or a date, needs no unit to be named."""
    trace = read_trace(write(tmp_path, f"{column},in,out\n{value},1,1\n".encode()))
    assert trace.header["time"]["unit_in_source"] == unit


def test_a_unit_is_never_guessed(tmp_path: Path) -> None:
    """Numbers without a unit are refused, and an unknown unit lists the known ones."""
    assert "name the time unit: s, ms, us, ns, iso" in refusal(write(tmp_path, CSV))
    assert "'min' is not a time unit: name s, ms, us, ns, iso" in refusal(write(tmp_path, CSV), time_unit="min")


def test_naming_a_unit_asks_for_a_plain_format(tmp_path: Path) -> None:
    """An Azure file read with named columns is a CSV file; azure-llm itself takes no such options."""
    path = write(tmp_path, AZURE_2023)
    assert read_trace(path, time_unit="iso").header["format"] == "csv"
    assert "leave columns and time unit out" in refusal(path, format="azure-llm", time_unit="iso")
    assert "azure-llm with 'TIMESTAMP" in refusal(write(tmp_path, CSV), format="azure-llm")


def test_jsonl_numbers_keep_their_digits(tmp_path: Path) -> None:
    """A number or a text in JSON is read from its digits; float64 would lose the last ones."""
    rows = b'{"t":1700158546.680590123,"in":1,"out":2}\n\n{"t":"1700158546.680590125","in":"3","out":4.0}\n'
    trace = read_trace(write(tmp_path, rows, "t.jsonl"), columns={"time": "t"}, time_unit="s")
    assert trace.at_ns.tolist() == [0, 2]
    assert trace.prompt_tokens.tolist() == [1, 3]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (b"{", "not JSON"),
        (b"[1]", "not a JSON object"),
        (b'{"timestamp":1,"input_length":1}', "no value for output_length"),
        (b'{"timestamp":null,"input_length":1,"output_length":1}', "no value for timestamp"),
        (b'{"timestamp":1,"input_length":true,"output_length":1}', "a value is neither number nor text"),
        (b'{"timestamp":NaN,"input_length":1,"output_length":1}', "'NaN' is not a time in ms"),
        (b'{"timestamp":-1,"input_length":1,"output_length":1}', "'-1' is not a time in ms"),
        (b'{"timestamp":1,"input_length":"long","output_length":1}', "'long' is not a count"),
    ],
)
def test_a_bad_jsonl_row_says_why(row: bytes, reason: str, tmp_path: Path) -> None:
    """Every kind of bad object is named with its line."""
    text = refusal(write(tmp_path, JSONL + row, "t.jsonl"), time_unit="ms")
    assert f"1 row cannot be read, at line 3 (line 3: {reason}" in text


def test_a_file_of_one_line_has_no_rows(tmp_path: Path) -> None:
    """A header alone is no trace, and a JSONL file without an object neither."""
    assert "no rows" in refusal(write(tmp_path, CSV.splitlines()[0]), time_unit="s")
    assert "no rows" in refusal(write(tmp_path, AZURE_2023.splitlines()[0]))
    assert "line 1: not a JSON object" in refusal(write(tmp_path, b"[]", "t.jsonl"), time_unit="s")


def test_broken_quotes_are_not_repaired(tmp_path: Path) -> None:
    """A quote that is opened and never closed would swallow the rest of the file: refused."""
    assert "not well-formed CSV" in refusal(write(tmp_path, CSV + b'1,"2,3\n4,5,6\n'), time_unit="s")


def test_sessions_and_turns_are_taken_when_named(tmp_path: Path) -> None:
    """Session labels become numbers in order of appearance; a missing one stays missing."""
    content = b"time,in,out,chat,n\n1,1,1,b,1\n2,1,1,a,1\n3,1,1,,\n4,1,1,b,2\n"
    trace = read_trace(write(tmp_path, content), columns={"session": "chat", "turn": "n"}, time_unit="s")
    assert trace.session is not None
    assert trace.session.tolist() == [0, 1, NULL, 0]
    assert trace.turn is not None
    assert trace.turn.tolist() == [1, 1, NULL, 2]


def test_rows_are_counted_and_kept(tmp_path: Path) -> None:
    """Import keeps failed and zero rows, counts them, and counts ties and backward steps."""
    trace = read_trace(write(tmp_path, b"time,in,out\n5,0,1\n7,1,0\n5,2,2\n4,0,0\n"), time_unit="s")
    assert trace.at_ns.tolist() == [0, 2 * 10**9, 0, -(10**9)]
    assert trace.header["rows"] == {
        "read": 4, "kept": 4, "failed": 2, "zero_in": 2, "zero_out": 2, "ties": 1, "backward": 2
    }  # fmt: skip


@pytest.mark.parametrize(
    ("times", "unit", "warned"),
    [
        ("0 2500 5000", "s", "read as s the mean gap is 2500 s, read as ms it would be 2.5 s"),
        ("0 2 4", "us", "read as us the mean gap is 2e-06 s, read as ms it would be 0.002 s"),
        ("0 1 2", "ns", "read as ns the mean gap is 1e-09 s, read as ms it would be 0.001 s"),
        ("0 2 4", "ms", None),
        ("0 0 0", "s", None),
        ("5", "s", None),
    ],
)
def test_an_unlikely_unit_is_warned_of(times: str, unit: str, warned: str | None, tmp_path: Path) -> None:
    """A mean gap above 60 s or below 1 ms is reported with both readings, and nothing is changed."""
    rows = "".join(f"{time},1,1\n" for time in times.split())
    warnings = read_trace(write(tmp_path, f"time,in,out\n{rows}".encode()), time_unit=unit).header["warnings"]
    assert warnings == ([] if warned is None else [f"time unit looks wrong: {warned}"])


def test_the_catalogue_is_light() -> None:
    """The table of formats loads no numpy, and an import of a trace neither pandas nor pyarrow."""
    code = (
        "import sys; import loadgen.traces.catalog; assert 'numpy' not in sys.modules;"
        "import loadgen.traces.replay, loadgen.traces.azure, loadgen.traces.delimited, loadgen.traces.neutral;"
        "assert not {'pandas', 'pyarrow', 'scipy', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
