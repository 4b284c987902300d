"""How an API is found: by its name, in a module, in a file, as an entry point; and what cannot be one."""

import sys
from collections.abc import Iterator
from importlib.metadata import PathDistribution, entry_points
from pathlib import Path

import pytest

from targets.api import BodyOptions, Delta, Usage
from targets.apis.catalog import APIS, make_api
from targets.apis.openai_chat import OpenAiChat
from targets.target import PlannedRequest

MINE = '''
"""APIs that are and are not."""

from targets.api import Delta, Usage
from targets.apis.openai_chat import OpenAiChat


class Mine(OpenAiChat):
    name = "mine"


class Framed(OpenAiChat):
    framing = "xml"


class Placed(OpenAiChat):
    path = "v1/chat"


class Deaf(OpenAiChat):
    event = None


class Picky(OpenAiChat):
    def __init__(self, wanted):
        self.wanted = wanted


class Broken(OpenAiChat):
    name = "broken"

    def body(self, request, options):
        return {"prompt": request.no_such_field}

    def event(self, data, event_type):
        return {}[data]

    def whole(self, body):
        return [1 / 0]


class Careless(OpenAiChat):
    def event(self, data, event_type):
        usage = Usage(float("nan"), -1, 10**30, 7)
        return Delta("a\\ud83d", tokens=-3, finish_reason="\\udc00", usage=usage, reply_id="x")

    def whole(self, body):
        return [Delta(text=5)]


class Half:
    name = "half"
    path = "/half"


WORD = "word"
'''


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[Path]:
    """A package on the path whose entry points name two APIs, one of which is not there."""
    (tmp_path / "my_package_of_apis.py").write_text(MINE)
    info = tmp_path / "my_package_of_apis-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package-of-apis\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[tokenload.apis]\nmine = my_package_of_apis:Mine\nlost = my_package_of_apis:Lost\n"
    )
    assert PathDistribution(info).entry_points
    sys.path.insert(0, str(tmp_path))
    yield tmp_path
    sys.path.remove(str(tmp_path))
    sys.modules.pop("my_package_of_apis", None)


def test_by_name_module_or_file(tmp_path: Path) -> None:
    """The three ways to write a spec each make the API they name."""
    (tmp_path / "mine.py").write_text(MINE)
    assert isinstance(make_api("openai-chat"), OpenAiChat)
    assert make_api("targets.apis.openai_chat:OpenAiChat").name == "openai-chat"
    assert make_api(f"{tmp_path / 'mine.py'}:Mine").name == "mine"


def test_by_an_entry_point(installed: Path) -> None:
    """An installed package's entry point is an API under its own name; one that cannot be loaded is told in a line."""
    assert {found.name for found in entry_points(group="tokenload.apis")} >= {"mine", "lost"}
    assert make_api("mine").name == "mine"
    with pytest.raises(ValueError, match=r"^API lost cannot be loaded: AttributeError: [^\n]*$"):
        make_api("lost")


def test_each_call_makes_a_fresh_api() -> None:
    """What one API has learnt of a server does not reach the next run's."""
    assert make_api("openai-chat") is not make_api("openai-chat")


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("openai", f"unknown API 'openai': known are {', '.join(APIS)}, FILE.py:CLASS"),
        ("", "unknown API ''"),
        ("mine.py:Nothing", "mine.py has no 'Nothing'"),
        ("gone.py:Mine", "no file"),
        ("no.such.module:Mine", "no module 'no.such.module'"),
        ("mine.py:WORD", "mine.py:WORD is not a class: it cannot make an API"),
        ("mine.py:Half", "mine.py:Half has no framing, models_path, body, event, whole: see targets.api.Api"),
        ("mine.py:Framed", "mine.py:Framed has framing 'xml': write 'sse' or 'ndjson'"),
        ("mine.py:Placed", "mine.py:Placed has path 'v1/chat': write one that starts with /"),
        ("mine.py:Deaf", "mine.py:Deaf: event is no method"),
        ("mine.py:Picky", "mine.py:Picky cannot be made: TypeError"),
    ],
)
def test_what_cannot_be_is_told_in_one_line(spec: str, says: str, tmp_path: Path) -> None:
    """A spec that makes no API names the value and what would do."""
    (tmp_path / "mine.py").write_text(MINE)
    place = str(tmp_path / spec) if spec.startswith(("mine.py", "gone.py")) else spec
    with pytest.raises(ValueError) as refused:
        make_api(place)
    assert says in str(refused.value) and "\n" not in str(refused.value)


def test_whatever_a_users_api_raises_fails_a_request_only(tmp_path: Path) -> None:
    """Any exception of a user's API is a ValueError of one line that does not repeat what the server sent."""
    (tmp_path / "mine.py").write_text(MINE)
    api = make_api(f"{tmp_path / 'mine.py'}:Broken")
    with pytest.raises(ValueError, match=r"^API broken cannot write request 7: AttributeError: .*no_such_field'$"):
        api.body(PlannedRequest(7, "x", None, 3), BodyOptions("m"))
    with pytest.raises(ValueError, match=r"^API broken cannot read an event: KeyError$"):
        api.event(b"secret", "message")
    with pytest.raises(ValueError, match=r"^API broken cannot read a reply: ZeroDivisionError$"):
        api.whole(b"secret")


def test_what_a_users_api_makes_of_an_event_can_be_written(tmp_path: Path) -> None:
    """Counts that are none are not told, halves of characters are replaced, and what is no text fails the request."""
    (tmp_path / "mine.py").write_text(MINE)
    api = make_api(f"{tmp_path / 'mine.py'}:Careless")
    usage = Usage(None, None, None, 7)
    assert api.event(b"", "message") == Delta("a?", tokens=None, finish_reason="?", usage=usage, reply_id="x")
    with pytest.raises(ValueError, match=r"^API openai-chat cannot read a reply: TypeError$"):
        api.whole(b"")
