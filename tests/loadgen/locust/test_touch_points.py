"""What locust does not promise and the control plane relies on, one test each: the name says which assumption broke.

Looked up in its source, since importing locust changes the process that does.
"""

import ast
import importlib.metadata
import importlib.util
from functools import cache
from pathlib import Path

import pytest


@cache
def source_of(name: str) -> ast.Module:
    """A file of the installed locust."""
    found = importlib.util.find_spec("locust")
    assert found is not None and found.origin is not None
    return ast.parse((Path(found.origin).parent / name).read_text())


def class_of(name: str, file: str = "runners.py") -> ast.ClassDef:
    """A class of it."""
    return next(node for node in ast.walk(source_of(file)) if isinstance(node, ast.ClassDef) and node.name == name)


def attributes(node: ast.ClassDef) -> set[str]:
    """Names that its methods set on self, and its methods."""
    set_on_self = {
        one.attr
        for one in ast.walk(node)
        if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name) and one.value.id == "self"
    }
    return set_on_self | {one.name for one in node.body if isinstance(one, ast.FunctionDef)}


def text_of(name: str, method: str, file: str = "runners.py") -> str:
    """The source of a method, in one normal form."""
    return next(
        ast.unparse(one) for one in class_of(name, file).body if isinstance(one, ast.FunctionDef) and one.name == method
    )


def test_the_version_is_the_one_that_was_looked_at() -> None:
    """2.47: a newer one is to be read before the bound is raised."""
    assert importlib.metadata.version("locust").startswith("2.47.")


@pytest.mark.parametrize("name", ["shape_greenlet", "shape_last_tick", "_users_dispatcher"])
def test_a_master_keeps_what_a_failed_start_must_clear(name: str) -> None:
    """`_ready_again` clears these, so that the next start from the UI is one."""
    assert name in attributes(class_of("MasterRunner"))


def test_a_shape_that_is_on_refuses_another_start() -> None:
    """Why they must be cleared: `start_shape` returns while `shape_greenlet` is set."""
    assert "if self.shape_greenlet:" in text_of("Runner", "start_shape")


def test_a_master_fires_test_start_before_it_tells_the_workers() -> None:
    """The schedule is shipped, and time 0 set, in `test_start`."""
    text = text_of("MasterRunner", "start")
    assert text.index("test_start.fire") < text.index("Message('spawn'")


def test_a_master_fires_test_stopping_before_it_tells_the_workers() -> None:
    """Draining happens there, with workers that still listen."""
    text = text_of("MasterRunner", "stop")
    assert text.index("test_stopping.fire") < text.index("Message('stop'")


def test_a_worker_tells_when_it_heard_the_master() -> None:
    """The watch for an orphaned run reads `last_heartbeat_timestamp`."""
    assert "last_heartbeat_timestamp = time.time()" in text_of("WorkerRunner", "handle_message")


def test_a_worker_asks_for_all_defaults_at_each_option() -> None:
    """Why `remember_defaults` keeps them: `default_args_dict` builds a parser, once for each option of a message."""
    assert "k not in argument_parser.default_args_dict()" in text_of("WorkerRunner", "handle_message")


def test_a_worker_that_is_silent_becomes_missing() -> None:
    """The watch for lost workers reads the state of `clients`."""
    assert "client.state = STATE_MISSING" in text_of("MasterRunner", "heartbeat_worker")


def test_a_local_run_hears_its_own_messages_at_once() -> None:
    """The same controller and agent then serve a run of one process."""
    assert "listener(environment=self.environment, msg=msg)" in text_of("LocalRunner", "send_message")


def test_a_shape_that_says_none_ends_a_headless_run() -> None:
    """How a run that is over ends locust."""
    text = text_of("Runner", "shape_worker")
    assert text.index("if current_tick is None") < text.index("self.quit()")


def test_a_stop_of_the_test_is_not_swallowed() -> None:
    """`StopTest` of a listener is raised again by `fire`."""
    assert "StopTest" in text_of("EventHook", "fire", "event.py")


def test_the_exit_code_can_be_set() -> None:
    """`process_exit_code` of the environment comes before locust's own."""
    text = ast.unparse(source_of("main.py"))
    assert "code = environment.process_exit_code" in text
