"""Bad input: exit code 2 and one line that names the value."""

import errno
import json
import os
from contextlib import chdir
from pathlib import Path
from shlex import split
from tempfile import TemporaryDirectory

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result

from loadgen.cli import LazyGroup, main
from loadgen.cli.options import InputError, one_line_errors

HUGE = "9" * 25
RATE = ("--rate", "4")


def invoke(*words: str) -> Result:
    """The command in this process."""
    return CliRunner().invoke(main, list(words))


def refused(*words: str) -> str:
    """The one line on stderr; nothing on stdout, exit code 2, nothing written."""
    with TemporaryDirectory() as folder, chdir(folder):
        result = invoke(*words)
        assert result.exit_code == 2, (result.exit_code, result.exception)
        assert result.stdout == ""
        lines = result.stderr.splitlines()
        assert len(lines) == 1, lines
        assert lines[0].startswith("Error: ")
        assert list(Path().iterdir()) == []
    return lines[0]


def rows(table: str) -> list[tuple[str, str]]:
    """Words and what the line must hold, from a table of `words -> named`."""
    return [
        (words.strip(), named.strip())
        for words, _, named in (row.partition("->") for row in table.strip().splitlines())
    ]


VALUES = """
--rate 0                             -> '0'
--rate -4                            -> '-4'
--rate fast                          -> 'fast'
--rate inf                           -> 'inf'
--rate nan                           -> 'nan'
--rate ''                            -> ''
--rate 4/s                           -> '4/s'
--rate 4 --requests 0                -> '0'
--rate 4 --requests 1e3              -> '1e3'
--rate 4 --requests -5               -> '-5'
--rate 4 --duration 60               -> '60'
--rate 4 --duration '1 fortnight'    -> '1 fortnight'
--rate 4 --duration -5s              -> '-5s'
--rate 4 --duration 0s               -> --duration
--rate 4 --prompt-tokens 0           -> '0'
--rate 4 --prompt-tokens 9:3         -> '9:3'
--rate 4 --output-tokens 1:2:3       -> '1:2:3'
--rate 4 --output-tokens x           -> 'x'
--rate 4 --arrival uniform           -> 'uniform'
--rate 4 --clock sundial             -> 'sundial'
--rate 4 --preset seed2              -> 'seed2'
--rate 4 --seed -1                   -> '-1'
--rate 4 --seed 1.5                  -> '1.5'
--rate 4 --timeout 5                 -> '5'
--rate 4 --drain soon                -> 'soon'
--rate 4 --slo fast                  -> 'fast'
--rate 4 --slo 'ttft<1s'             -> 'ttft<1s'
--rate 4 --slo 'ttft<=1'             -> ttft<=1
--rate 4 --slo 'p99<=1s'             -> 'p99<=1s'
--rate 4 --slo ''                    -> ''
--rate 4 --slo 'ttft<=1s,ttft<=2s'   -> ttft
--rate 4 --threshold late_ns=1 --threshold late_ns=2 -> 'late_ns'
--rate 4 --target http://127.0.0.1:1 --body '{"a": {"b": 1, "b": 2}}' -> 'b'
--rate 4 --engine continuous,batch=8,batch=16 -> batch=16
--rate 4 --arrival gamma --cv 0      -> '0'
--arrival closed --users 0           -> '0'
--arrival closed --users 2 --think 1 -> '1'
"""


@pytest.mark.parametrize(("words", "named"), rows(VALUES))
def test_a_bad_value_is_named(words: str, named: str) -> None:
    """Units, ranges and choices: the line holds the value as it was typed."""
    assert named in refused("run", *split(words))


CONTRADICTIONS = """
                                            -> --rate
--arrival gamma --rate 4                    -> --cv
--rate 4 --cv 2                             -> --cv
--arrival closed                            -> --users
--rate 4 --users 3                          -> --users
--rate 4 --think 1s                         -> --think
--arrival burst --rate 4                    -> --rate
--arrival closed --users 2 --rate 4         -> --rate
--arrival burst --duration 5s               -> --duration
--rate 4 --requests 5 --duration 5s         -> --duration
--rate 4 --window 0..5m                     -> --trace
--rate 4 --limit 5                          -> --trace
--rate 4 --speed 2                          -> --speed
--rate 4 --loop 2                           -> --trace
--rate 4 --context 99:drop                  -> --trace
--rate 4 --columns time=a,prompt=b,output=c -> --trace
--rate 4 --time-unit s                      -> --trace
--trace t.csv --speed 2 --rate 4            -> --speed
--trace t.csv --requests 5                  -> --limit
--trace t.csv --duration 5s                 -> --window
--trace t.csv --preset seed1                -> --preset
--arrival closed --users 5 --requests 3     -> --users 5
"""


@pytest.mark.parametrize(("words", "named"), rows(CONTRADICTIONS))
def test_a_contradiction_is_named(words: str, named: str) -> None:
    """What is missing or cannot be together is said with the options' names."""
    assert named in refused("run", *split(words))


ENGINES = """
perpetual                    -> 'perpetual'
''                           -> ''
continuous,batch=0           -> batch=0
continuous,batch=x           -> batch=x
continuous,batch=-1          -> batch=-1
continuous,batch             -> 'batch'
continuous,colour=red        -> 'colour'
static,wait=maybe            -> wait=maybe
static,max-wait=50ms         -> max-wait
static,wait=full,max-wait=50 -> max-wait=50
static,return=never          -> return=never
static,until=x               -> until=x
static-bucketed,window=0     -> window=0
continuous,executor=magic    -> 'magic'
continuous,decode-base=0ms   -> decode-base
continuous,decode-base=fast  -> decode-base=fast
nothing.py:Engine            -> nothing.py
no_such_module:Engine        -> 'no_such_module'
json:NoSuchThing             -> 'NoSuchThing'
:                            ->
json:JSONDecodeError         ->
json:dumps                   ->
"""


@pytest.mark.parametrize(("spec", "named"), rows(ENGINES))
def test_a_bad_engine_is_named(spec: str, named: str) -> None:
    """Unknown engines, options, values, files, modules and classes, and what is no engine at all."""
    assert named in refused("run", *RATE, "--clock", "modelled", "--engine", "".join(split(spec)))


BROKEN_FILES = {
    "syntax": "class Mine(:\n",
    "import": "import a_module_that_is_not_there\nclass Mine: ...\n",
    "raises": "raise RuntimeError('two\\nlines')\n",
    "no class": "class Other: ...\n",
    "no methods": "class Mine: ...\n",
    "needs": "class Mine:\n    def __init__(self, size): ...\n    add_request = has_work = step = None\n",
    "refuses": "class Mine:\n    def __init__(self):\n        raise ValueError('no GPU here')\n",
    "breaks": "class Mine:\n    def __init__(self):\n        raise RuntimeError('no GPU here')\n",
}


@pytest.mark.parametrize("text", BROKEN_FILES.values(), ids=BROKEN_FILES.keys())
def test_a_users_file_that_cannot_be_used_is_one_line(tmp_path: Path, text: str) -> None:
    """A file that does not load or whose class cannot be made is the user's error, told in one line."""
    (tmp_path / "mine.py").write_text(text)
    refused("run", *RATE, "--engine", f"{tmp_path / 'mine.py'}:Mine")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "words",
    [
        ("--rate", "1e400"), ("--rate", "1e-400"), ("--rate", "1e-300"), ("--rate", "1e-9"),
        (*RATE, "--requests", "1" + "0" * 14), (*RATE, "--requests", HUGE), (*RATE, "--duration", f"{HUGE}h"),
        (*RATE, "--duration", "99999999999h"), (*RATE, "--output-tokens", HUGE),
        (*RATE, "--prompt-tokens", HUGE), (*RATE, "--prompt-tokens", f"1:{HUGE}"),
        ("--arrival", "closed", "--users", "2", "--think", f"{HUGE}h"),
        ("--arrival", "closed", "--users", HUGE), (*RATE, "--slo", "ttft<=" + "9" * 400 + "s"),
        ("--arrival", "gamma", *RATE, "--cv", "1e-200"), ("--arrival", "gamma", *RATE, "--cv", "1e200"),
        (*RATE, "--engine", f"continuous,batch={HUGE}"),
    ],
    ids=lambda words: " ".join(words)[:60],
)  # fmt: skip
def test_a_number_beyond_all_bounds_is_one_line(words: tuple[str, ...]) -> None:
    """No value however large or small ends in a traceback or a warning of the arithmetic."""
    refused("run", "--clock", "modelled", *words)


@pytest.fixture
def plain_trace(tmp_path: Path) -> Path:
    """Three requests, one a second."""
    path = tmp_path / "plain.csv"
    path.write_text("t,in,out\n0,5,5\n1,5,5\n2,500,5\n")
    return path


REPLAYS = """
--window 5m..4m                          -> '5m..4m'
--window 7                               -> '7'
--window 5s..6s                          -> window
--window 0..9999999999999999999999999h   ->
--limit 0                                -> '0'
--limit 9999999999999999999999999        ->
--speed 0                                -> '0'
--speed 1e-300                           ->
--speed 1e300                            ->
--rate 1e-300                            ->
--loop 0                                 -> '0'
--loop 9999999999999999999999999         ->
--context 1:drop                         -> context
--context 100                            -> 100
--context 100:guess                      -> 'guess'
--context 9999999999999999999999999:drop ->
--time-unit weeks                        -> 'weeks'
--columns time=t                         ->
--columns time=t,prompt=in,output=out,time=in -> 'time'
--columns time=no,prompt=in,output=out   -> no
--columns t,in,out                       -> 't,in,out'
"""


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("words", "named"), rows(REPLAYS))
def test_a_trace_option_that_cannot_be_is_one_line(plain_trace: Path, words: str, named: str) -> None:
    """Every option of a replay: refused in one line, or harmless; never a traceback."""
    name, value = split(words)
    base = {"--trace": str(plain_trace), "--columns": "time=t,prompt=in,output=out", "--time-unit": "s"}
    given = [word for pair in {**base, name: value}.items() for word in pair]
    if named:
        assert named in refused("schedule", *given)
    else:
        result = invoke("schedule", *given)
        assert result.exit_code in (0, 2), result.exception
        assert result.exit_code == 0 or len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "content",
    [None, b"", b"\n", b"\xff\xfe\x00", b"TIMESTAMP,ContextTokens,GeneratedTokens\n", b"hello"],
    ids=["missing", "empty", "blank", "binary", "only a header", "no trace"],
)
def test_a_file_that_is_no_trace_is_named(tmp_path: Path, content: bytes | None) -> None:
    """A trace that is missing, empty or something else is named in one line."""
    path = tmp_path / "some.csv"
    if content is not None:
        path.write_bytes(content)
    assert "some.csv" in refused("run", "--trace", str(path))
    assert "some.csv" in refused("schedule", "--trace", str(path))


def test_a_folder_is_no_trace(tmp_path: Path) -> None:
    """A folder given as a trace is named."""
    assert tmp_path.name in refused("run", "--trace", str(tmp_path))


@pytest.mark.parametrize(
    "content",
    [
        None, "", "{", "[" * 100_000, "[]", "7", '{"config": 7}', '{"config": []}', '{"config": {"rats": "4"}}',
        '{"config": {"rate": 4}}', '{"config": {"rate": "four"}}', '{"rate": null}',
    ],
)  # fmt: skip
def test_a_file_that_is_no_config_is_one_line(tmp_path: Path, content: str | None) -> None:
    """A config that is missing, damaged, empty of options or holds bad ones is refused."""
    path = tmp_path / "config.json"
    if content is not None:
        path.write_text(content)
    refused("run", "--config", str(path))


def test_a_config_that_says_a_thing_twice_is_refused(tmp_path: Path) -> None:
    """The last would win in silence: the file and the name are told."""
    path = tmp_path / "config.json"
    path.write_text('{"rate": "4", "requests": "5", "rate": "8"}')
    line = refused("run", "--clock", "modelled", "--config", str(path))
    assert "config.json" in line and "'rate' is given twice" in line


@pytest.mark.parametrize(
    "words", ["--rates 4,8,4", "--rates 4,4.0", "--rates closed:8,closed:08", "--concurrency 4,04"]
)
def test_a_load_that_is_given_twice_is_named(words: str) -> None:
    """However it is written."""
    assert "twice" in refused("sweep", "--clock", "modelled", *split(words))


def test_a_time_beyond_64_bits_says_how_long_a_run_may_last() -> None:
    """In place of what Python says of its integers."""
    with pytest.raises(InputError, match="2,562 hours of modelled time") as caught, one_line_errors():
        np.fromiter([2**80], dtype=np.int64)
    assert "C long" not in caught.value.message
    with pytest.raises(InputError, match="too large for this machine"), one_line_errors():
        raise OverflowError("cannot serialize a string larger than 4GiB")


def test_a_folder_without_a_run_is_no_config(tmp_path: Path) -> None:
    """A folder given as a config must be a run folder."""
    assert "--config" in refused("run", "--config", str(tmp_path))
    (tmp_path / "run.json").write_text(json.dumps({"status": "running"}))
    refused("run", "--config", str(tmp_path))


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_an_out_that_is_a_file_is_one_line(tmp_path: Path, place: str) -> None:
    """Run folders cannot go into a file: one line, and the file is untouched."""
    (tmp_path / "file").write_text("mine")
    result = invoke("run", "--clock", "modelled", *RATE, "--requests", "5", "--out", str(tmp_path / place))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.splitlines()[-1].startswith("Error: ")
    assert sum(line.startswith("Error: ") for line in result.stderr.splitlines()) == 1
    assert "Traceback" not in result.stderr
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("words", [("run", "--rats"), ("runs", "--rats"), ("perform",), ("run", "--rate")])
def test_an_unknown_word_is_a_usage_error(words: tuple[str, ...]) -> None:
    """Unknown commands and options, and options without their value: exit code 2, the word named."""
    result = invoke(*words)
    assert result.exit_code == 2
    assert words[-1] in result.stderr
    assert result.stderr.splitlines()[-1].startswith("Error: ")


def test_a_saved_schedule_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    """--save into a folder that is not there."""
    assert "nowhere" in refused("schedule", *RATE, "--save", str(tmp_path / "nowhere" / "x.jsonl"))


def test_a_folder_to_show_that_is_no_run_is_one_line(tmp_path: Path) -> None:
    """`runs FOLDER` of something else."""
    assert "is not a run folder" in refused("runs", str(tmp_path / "nothing"))


@pytest.mark.parametrize(
    ("raised", "code"),
    [(KeyboardInterrupt(), 130), (OSError(28, "No space left on device"), 2), (MemoryError(), 2)],
)
def test_what_a_command_does_not_catch_is_one_line_too(raised: BaseException, code: int) -> None:
    """Ctrl-C while a command loads, a full disk behind stdout, no memory for either."""

    @click.command(cls=LazyGroup, invoke_without_command=True)
    def group() -> None:
        raise raised

    result = CliRunner().invoke(group, [])
    assert result.exit_code == code and len(result.stderr.splitlines()) == 1 and "Traceback" not in result.output


@pytest.mark.parametrize(
    "words",
    ["sweep --rates ''", "sweep --repeats ''", "sweep --concurrency ''", "run --concurrency ''", "run --config ''",
     "capacity --start ''", "capacity --requests ''", "capacity --attainment ''"],
)  # fmt: skip
def test_an_empty_text_is_no_default(words: str) -> None:
    """A variable that a script never set must not start four minutes of something else: one line."""
    assert refused(*split(words), "--clock", "modelled").startswith("Error: --")


@pytest.mark.parametrize(
    "number",
    [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EACCES],
)
def test_a_disk_that_refuses_is_named_with_a_way_out(number: int) -> None:
    """The file, the reason and what to do, without Python's own brackets."""
    with pytest.raises(InputError) as caught, one_line_errors():
        raise OSError(number, os.strerror(number), "runs/x")
    assert caught.value.message.startswith(f"runs/x: {os.strerror(number)}: ")
    assert "--out" in caught.value.message and "[Errno" not in caught.value.message
    with pytest.raises(InputError, match="No space left on device: make room"), one_line_errors():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_machine_without_threads_is_one_line_and_other_faults_are_not_hidden() -> None:
    """Python has no class of its own for it, and everything else that is a RuntimeError is a fault of ours."""
    with pytest.raises(InputError, match="ulimit -u"), one_line_errors():
        raise RuntimeError("can't start new thread")
    with pytest.raises(RuntimeError, match="ours"), one_line_errors():
        raise RuntimeError("ours")
