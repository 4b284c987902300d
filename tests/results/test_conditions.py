"""The stamp as a whole: its groups, their hashes, what stays equal from run to run, and that no secret is in it."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from results.conditions import (
    COMPARABILITY,
    begin_stamp,
    comparability,
    finish,
    start_again,
    unfinished,
)
from results.schedule import make_schedule
from results.stamp.canonical import canonical
from results.stamp.given import engine_facts, workload_facts
from results.stamp.identity import environment
from tests.results.test_stamp_machine import MACHINE, place, tree

GROUPS = {"run", "identity", "workload", "engine", "software", "hardware", "during"}
SECRET = "correct-horse-battery-staple"


def stamped(root: Path, **changes: Any) -> dict[str, Any]:
    """A finished stamp of the made-up machine, with nothing told."""
    return finish(begin_stamp({}, {}, {}, place(tree(root, MACHINE), **changes)))


def changed_groups(document: Mapping[str, Any]) -> list[str]:
    """Groups that do not have the hash they were written with."""
    bodies = {
        name: canonical({key: value for key, value in group.items() if key != "sha256"})
        for name, group in document["groups"].items()
    }
    return [
        name for name, body in bodies.items() if document["groups"][name]["sha256"] != hashlib.sha256(body).hexdigest()
    ]


def test_every_null_has_its_reason(tmp_path: Path) -> None:
    """On a machine that tells all and on one that tells nothing, fields and reasons fit together."""
    for root in (tree(tmp_path / "all", MACHINE), tmp_path / "nothing"):
        stamp = begin_stamp({}, {}, {}, place(root))
        for document in (finish(stamp), unfinished(stamp)):
            assert set(document["groups"]) == GROUPS
            for name, group in document["groups"].items():
                nulls = {field for field, value in group["fields"].items() if value is None}
                assert nulls <= set(group["reasons"]), name
                assert set(group["reasons"]) <= set(group["fields"]), name
                assert all(group["reasons"].values())


def test_every_field_has_a_comparability_class(tmp_path: Path) -> None:
    """The table knows every field that is found, and knows no other classes; what is told beyond it has a default."""
    for name, group in stamped(tmp_path)["groups"].items():
        assert set(group["fields"]) == set(COMPARABILITY[name])
        assert {comparability(name, field) for field in group["fields"]} <= {"identity", "performance", "info"}
    assert comparability("workload", "schedule_sha256") == comparability("workload", "something new") == "identity"
    assert comparability("engine", "something new") == "performance"
    assert comparability("workload", "content_sha256") == comparability("run", "something new") == "info"


def test_the_same_run_twice_has_the_same_hashes(tmp_path: Path) -> None:
    """Only `run` and `during` differ between two stamps of the same thing."""
    one, two = stamped(tmp_path), stamped(tmp_path)
    equal = {name for name in GROUPS if one["groups"][name]["sha256"] == two["groups"][name]["sha256"]}
    assert equal >= GROUPS - {"run", "during"}
    assert one["groups"]["run"]["fields"]["run_id"] != two["groups"]["run"]["fields"]["run_id"]


def test_the_same_run_twice_on_this_machine_has_the_same_hashes() -> None:
    """Also of this process, whose clock, load and memory move all the time."""
    one, two = (begin_stamp({}, {"requests": 3}, {"slots": 8}).groups for _ in range(2))
    for name in ("identity", "workload", "engine", "software", "hardware"):
        assert canonical(one[name]) == canonical(two[name]), name


def test_a_stamp_survives_its_file(tmp_path: Path) -> None:
    """Hashes can be checked after writing and reading; a changed field is noticed by its group."""
    document = stamped(tmp_path)
    read = json.loads(json.dumps(document, indent=1))
    assert canonical(read) == canonical(document)
    assert changed_groups(read) == []
    read["groups"]["hardware"]["fields"]["cpus"] = 64
    del read["groups"]["run"]["reasons"]["order_index"]
    assert sorted(changed_groups(read)) == ["hardware", "run"]


def test_what_only_the_end_can_tell_is_null_until_then(tmp_path: Path) -> None:
    """A run that dies leaves a stamp that says so; the groups before it are the same as after the end."""
    stamp = begin_stamp({}, {}, {}, place(tree(tmp_path, MACHINE)))
    early, late = unfinished(stamp), finish(stamp)
    assert early["groups"]["run"]["reasons"]["ended_utc"] == "NOT_ENDED"
    assert early["groups"]["during"]["reasons"]["load_average"] == "NOT_ENDED"
    assert late["groups"]["run"]["fields"]["ended_utc"] is not None
    assert late["groups"]["during"]["fields"]["load_average"] == {"start": 1.5, "end": 1.5, "delta": 0.0}
    assert early["groups"]["software"] == late["groups"]["software"]


def test_readings_of_the_start_can_be_taken_again(tmp_path: Path) -> None:
    """After a warm-up only the readings are new."""
    root = tree(tmp_path, MACHINE)
    stamp = begin_stamp({}, {}, {}, place(root))
    tree(root, {"proc/loadavg": "7.00 0 0 1/2 3\n"})
    again = start_again(stamp)
    assert (stamp.start.values["load_average"], again.start.values["load_average"]) == (1.5, 7.0)
    assert (again.groups, again.run) == (stamp.groups, stamp.run)


def test_what_is_told_is_kept_and_what_was_expected_is_null(tmp_path: Path) -> None:
    """Nothing that a caller tells is dropped, known or not; what it should have told is null, NOT_TOLD."""
    told = {"config_requested": {"rate": "8.0"}, "mine": 1, "run_id": "r1", "order_index": 4, "argv": ["other"]}
    engine = {"slots": 8, "unheard_of": {"x": [1, None]}}
    document = finish(begin_stamp(told, {"requests": 3}, engine, place(tree(tmp_path, MACHINE))))
    groups = document["groups"]
    assert groups["identity"]["fields"]["config_requested"] == {"rate": "8.0"}
    assert (groups["identity"]["fields"]["mine"], groups["identity"]["fields"]["argv"]) == (1, ["other"])
    assert groups["identity"]["reasons"]["config_effective"] == "NOT_TOLD"
    assert (groups["run"]["fields"]["run_id"], groups["run"]["fields"]["order_index"]) == ("r1", 4)
    assert groups["engine"]["fields"]["unheard_of"] == {"x": [1, None]}
    assert groups["workload"]["reasons"]["schedule_sha256"] == "NOT_TOLD"


def test_a_schedule_tells_its_workload() -> None:
    """Hashes, counts, origin, the trace's own hash; the same schedule tells the same."""
    origin = {"process": "trace", "rate_rps": 2.0, "trace": {"source": {"file": "a.csv", "sha256": "ab"}}, "odd": 1}
    recipe = {"prompt": {"seed": 7}, "sampling": {"temperature": 0.0}}
    schedule = make_schedule([0, 5], [3, 4], [2, 2], recipe=recipe, origin=origin)
    facts = workload_facts(schedule)
    assert facts["schedule_sha256"] == schedule.sha256
    assert (facts["requests"], facts["prompt_tokens"], facts["output_tokens"]) == (2, 7, 4)
    assert (facts["trace_sha256"], facts["process"], facts["odd"]) == ("ab", "trace", 1)
    assert facts["sampling"] == {"temperature": 0.0}
    assert workload_facts(make_schedule([0], [1], [1]))["trace_sha256"] is None


def test_an_engine_tells_its_model() -> None:
    """What its executor knows of the model stands in the group's own fields; an engine without one tells less."""
    executor = {"name": "tinygpt", "weights_sha256": "ab", "dtype": "float32", "config": {"layers": 6}, "parameters": 9}
    facts = engine_facts({"policy": "static", "slots": 8, "executor": executor}, "charged")
    assert (facts["model"], facts["weights_sha256"], facts["dtype"]) == ("tinygpt", "ab", "float32")
    assert (facts["policy"], facts["clock"], facts["executor"]) == ("static", "charged", executor)
    assert engine_facts({"policy": "Mine", "slots": None}, "real") == {"policy": "Mine", "slots": None, "clock": "real"}


class OnlyListed(Mapping[str, str]):
    """An environment that is told of by name, and refuses every value that should not be looked at."""

    def __init__(self, values: dict[str, str]) -> None:
        self._values = values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, name: str) -> str:
        assert self._values[name] != SECRET, f"the value of {name} was read"
        return self._values[name]


def test_no_variable_off_the_list_is_ever_read() -> None:
    """Names decide, before any value is touched; what sounds like a secret is never on the list."""
    harmless = {"OMP_NUM_THREADS": "1", "HF_HOME": "/x", "CUDA_VISIBLE_DEVICES": "", "LD_PRELOAD": "libjemalloc.so"}
    forbidden = dict.fromkeys(
        ("HF_TOKEN", "HF_HUB_TOKEN", "CUDA_API_KEY", "TORCH_SECRET", "MKL_PASSWORD", "OPENAI_API_KEY", "HOME", "USER",
         "DATABASE_URL", "HF_hub_token", "MALLOC_AUTH", "PYTHONPATH"),
        SECRET,
    )  # fmt: skip
    assert environment(OnlyListed({**harmless, **forbidden})) == harmless


SECRETS = st.builds(
    "Zq7{}x".format, st.text("abcdefghijkmnpqrstuvwxyzABCDEFGH23456789-_.~+/", min_size=10, max_size=30)
)


@settings(deadline=None, max_examples=25)
@given(secret=SECRETS)
def test_no_planted_secret_is_in_a_stamp(secret: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Planted in environment, arguments, addresses, config, workload, engine and the working folder, it is nowhere."""
    root = tmp_path_factory.getbasetemp() / "secrets"
    in_address = secret.replace("/", "_")
    here = place(
        root if root.exists() else tree(root, MACHINE),
        environ={"HF_TOKEN": secret, "API_KEY": secret, "HF_ENDPOINT": f"https://u:{in_address}@mirror.example"},
        argv=("tokenload", "run", "--api-key", secret, f"--target=https://me:{in_address}@h.example/?key={secret}",
              "--header", f"X-Custom: {secret}", "--engine", f"./mine.py:Engine,slots=4,hf_token={secret}"),
        cwd=root / f"home/user/token={in_address}",
    )  # fmt: skip
    config = {"target": f"https://h.example/v1?api_key={secret}&x=1", "headers": {"X": secret}, "auth": [secret]}
    engine = {"options": {"apiKey": secret}, "url": f"https://{in_address}@h.example", "note": f"Bearer {secret}"}
    told = {"config_requested": config, "git": {"branch": f"token={secret}"}}
    stamp = begin_stamp(told, {"trace": config}, engine, here)
    for document in (unfinished(stamp), finish(stamp)):
        written = json.dumps(document)
        assert secret not in written
        assert in_address not in written
        assert document["groups"]["identity"]["fields"]["argv"][1] == "run"


def test_the_home_folder_is_nowhere_in_a_stamp(tmp_path: Path) -> None:
    """Working folder, arguments and variables show it as ~."""
    home = str(tmp_path / "home/user")
    document = stamped(tmp_path, argv=("tokenload", f"--out={home}/runs"), environ={"HF_HOME": f"{home}/.cache"})
    assert home not in json.dumps(document)
    fields = document["groups"]["identity"]["fields"]
    assert (fields["cwd"], fields["argv"][1]) == ("~/here", "--out=~/runs")
    assert fields["environment"] == {"HF_HOME": "~/.cache"}


def test_torch_is_asked_only_when_it_is_there(tmp_path: Path) -> None:
    """Not loaded: null, and not loaded by the stamp; loaded: version, threads and build."""
    groups = stamped(tmp_path)["groups"]
    assert groups["software"]["reasons"]["torch_threads"] == "NOT_LOADED: torch"
    torch = SimpleNamespace(
        __version__="2.13.0", get_num_threads=lambda: 1, get_num_interop_threads=lambda: 2,
        __config__=SimpleNamespace(show=lambda: "PyTorch built with:\n  - GCC 13.3\n"),
    )  # fmt: skip
    software = stamped(tmp_path, modules={"torch": torch})["groups"]["software"]
    assert (software["fields"]["torch_version"], software["fields"]["torch_threads"]) == ("2.13.0", 1)
    assert software["fields"]["torch_build"] == ["PyTorch built with:", "  - GCC 13.3"]
    assert software["reasons"]["torch_determinism"] == "FAILED: AttributeError"


def test_names_of_packages_are_no_secrets(tmp_path: Path) -> None:
    """A package may be called secretstorage: its version is told."""
    tree(tmp_path / "site", {"secretstorage-3.3.dist-info/METADATA": "Name: secretstorage\nVersion: 3.3\n\n"})
    software = stamped(tmp_path, search_path=(str(tmp_path / "site"),))["groups"]["software"]
    assert software["fields"]["packages"] == {"secretstorage": "3.3"}


def test_the_conditions_of_this_process_can_be_written() -> None:
    """Of the real machine: plain JSON, every group there, its own version found."""
    document = unfinished(begin_stamp({}, {}, {}))
    assert set(document["groups"]) == GROUPS
    assert changed_groups(json.loads(json.dumps(document, allow_nan=False))) == []
    assert document["groups"]["identity"]["fields"]["tool_version"]


def test_a_workload_is_hashed_by_its_order_and_by_its_prompts() -> None:
    """The order is of the lengths whatever the times; the set of prompts is the same in any order."""
    recipe = {"prompt": {"seed": 1}}
    one, later, turned = (
        workload_facts(make_schedule(due_ns, prompts, [4, 5], recipe=recipe))
        for due_ns, prompts in (([0, 1], [8, 9]), ([0, 7], [8, 9]), ([0, 1], [9, 8]))
    )
    assert one["order_sha256"] == later["order_sha256"] != turned["order_sha256"]
    assert one["prompt_set_sha256"] == later["prompt_set_sha256"] == turned["prompt_set_sha256"]
    other = workload_facts(make_schedule([0, 1], [8, 9], [4, 5], recipe={"prompt": {"seed": 2}}))
    assert other["order_sha256"] == one["order_sha256"] and other["prompt_set_sha256"] != one["prompt_set_sha256"]
