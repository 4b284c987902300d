"""What is installed and who else has our names is read from folders made up like site-packages."""

import hashlib
import subprocess
from pathlib import Path

import pytest

from results.stamp.canonical import canonical, plain, sha256_of
from results.stamp.checkout import checkout
from results.stamp.interpreter import interpreter, numeric_libraries
from results.stamp.kernel import MissingError
from results.stamp.packages import collisions, entries, installed, requirement
from tests.results.test_stamp_machine import tree


def distribution(name: str, version: str, metadata: str = "", **files: str) -> dict[str, str | None]:
    """The folder of an installed distribution; files such as RECORD and top_level by name."""
    folder = f"{name}-{version}.dist-info"
    head = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}\nName: not this one\n"
    rest = {f"{folder}/{'top_level.txt' if key == 'top_level' else key}": text for key, text in files.items()}
    return {f"{folder}/METADATA": head, **rest}


def test_packages_are_listed_by_name_and_version(tmp_path: Path) -> None:
    """Names are brought into one form, and of two on the path the first counts."""
    first, second = tmp_path / "first", tmp_path / "second"
    tree(first, {**distribution("Zope.Interface", "8.7"), **distribution("numpy", "2.4.6")})
    tree(second, {**distribution("numpy", "1.0"), **distribution("secretstorage", "3.3")})
    search = entries(["first", str(second), "first", ""], tmp_path)
    assert installed(search) == {"zope-interface": "8.7", "numpy": "2.4.6", "secretstorage": "3.3"}


def test_a_damaged_distribution_is_listed_all_the_same(tmp_path: Path) -> None:
    """Without metadata there is no name, and nothing raises."""
    tree(tmp_path, {"broken-1.0.dist-info/RECORD": ""})
    assert installed((str(tmp_path),)) == {"unnamed": None}


def test_the_range_asked_of_another_package_is_found(tmp_path: Path) -> None:
    """In our own metadata, with or without an extra; None for what is not asked for."""
    asked = "Requires-Dist: numpy>=2.0\nRequires-Dist: torch<2.14,>=2.6; extra == 'torch'\nRequires-Dist: rich\n"
    tree(tmp_path, distribution("tokenload", "0.1.0", asked))
    search = (str(tmp_path),)
    assert requirement(search, "torch") == "<2.14,>=2.6"
    assert requirement(search, "numpy") == ">=2.0"
    assert requirement(search, "rich") == ""
    assert requirement(search, "torchvision") is None


def test_others_with_our_names_are_found_and_named(tmp_path: Path) -> None:
    """A package before ours shadows it; one after ours, or in the working folder, does not; each has its owner."""
    before, ours, after, cwd = (tmp_path / name for name in ("before", "ours", "after", "cwd"))
    tree(before, {**distribution("etalon", "1.0", RECORD="results/__init__.py,,\n"), "results/__init__.py": ""})
    tree(ours, {"results/__init__.py": "", "engines/__init__.py": ""})
    tree(after, {"engines.py": ""})
    tree(cwd, {"loadgen/__init__.py": "", "targets/notes.txt": ""})
    found = collisions(entries([str(before), str(ours), str(after)], cwd), ours, cwd)
    assert found == (
        {"package": "results", "where": str(before), "provided_by": "etalon", "shadows": True},
        {"package": "engines", "where": str(after), "provided_by": None, "shadows": False},
        {"package": "loadgen", "where": str(cwd), "provided_by": None, "shadows": False},
    )


def test_an_editable_installation_elsewhere_is_found_by_what_it_declares(tmp_path: Path) -> None:
    """It has nothing on the path but its list of packages; our own list is no collision."""
    tree(
        tmp_path,
        {
            **distribution("other", "2.0", top_level="engines\nother\n"),
            **distribution("tokenload", "0.1", top_level="results"),
        },
    )
    found = collisions((str(tmp_path),), tmp_path / "program", tmp_path)
    assert found == ({"package": "engines", "where": None, "provided_by": "other", "shadows": False},)


def git(folder: Path, *arguments: str) -> None:
    """With a name of its own, and without the settings of whoever runs the tests."""
    who = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, "-C", str(folder), *arguments], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A checkout with one commit."""
    tree(tmp_path / "code", {"a.py": "1\n"})
    git(tmp_path / "code", "init", "-b", "trunk")
    git(tmp_path / "code", "add", "a.py")
    git(tmp_path / "code", "commit", "-m", "one")
    return tmp_path / "code"


def test_a_clean_checkout_is_its_commit(repository: Path) -> None:
    """Nothing differs: the hash is that of no difference."""
    found = checkout(repository)
    assert (found["branch"], found["dirty"], found["untracked"]) == ("trunk", False, [])
    assert found["diff_sha256"] == hashlib.sha256(b"").hexdigest()
    assert len(found["commit"]) == 40


def test_changes_are_hashed_and_new_files_listed(repository: Path) -> None:
    """The same change has the same hash, another change another; a new file alone does not make it dirty."""
    tree(repository, {"new file.py": ""})
    assert checkout(repository)["untracked"] == ["new file.py"]
    assert not checkout(repository)["dirty"]
    hashes = []
    for content in ("2\n", "3\n", "2\n"):
        tree(repository, {"a.py": content})
        assert checkout(repository)["dirty"]
        hashes.append(checkout(repository)["diff_sha256"])
    assert hashes[0] == hashes[2] != hashes[1]


def test_a_detached_checkout_says_so(repository: Path) -> None:
    """Without a branch there is git's own word for it."""
    git(repository, "checkout", "--detach")
    assert checkout(repository)["branch"] == "(detached)"


def test_a_folder_inside_of_another_project_is_no_checkout(repository: Path) -> None:
    """An installation inside of somebody's repository does not take that repository's commit for its own."""
    tree(repository, {"site-packages/results/__init__.py": ""})
    with pytest.raises(MissingError, match="NOT_A_CHECKOUT"):
        checkout(repository / "site-packages")
    tree(repository / "site-packages", {".git": "gitdir: nowhere\n"})
    with pytest.raises(MissingError, match="GIT_FAILED"):
        checkout(repository / "site-packages")


def test_a_watcher_is_noticed() -> None:
    """tracemalloc and trace functions are named; a plain interpreter has none but what runs the tests."""
    import tracemalloc

    before = interpreter({}).watchers
    tracemalloc.start()
    try:
        assert set(interpreter({}).watchers) - set(before) == {"tracemalloc"}
    finally:
        tracemalloc.stop()
    assert interpreter({}).watchers == before


def test_libraries_of_numbers_are_known_by_their_files() -> None:
    """Two OpenMP runtimes in one process show up as two."""
    maps = "1-2 r /usr/lib/libgomp.so.1\n1-2 r /x/libiomp5.so\n1-2 r /x/libgomp.so.1\n1-2 r /x/libc.so.6\n1-2 rw 0 \n"
    assert numeric_libraries(maps) == ["libgomp.so.1", "libiomp5.so"]


def test_the_same_input_gives_the_same_bytes() -> None:
    """Neither the order of keys nor the kind of container changes the canonical form."""
    one = {"b": (1, 2.5), "a": {"y": None, "x": "ü"}}
    other = {"a": {"x": "ü", "y": None}, "b": [1, 2.5]}
    assert canonical(plain(one, {})) == canonical(plain(other, {})) == '{"a":{"x":"ü","y":null},"b":[1,2.5]}'.encode()
    assert sha256_of(plain({"s": {3, 1, 2}}, {})) == sha256_of(plain({"s": {2, 3, 1}}, {}))


def test_what_has_no_plain_form_is_null_with_a_reason() -> None:
    """No nan, no bytes, no object's address; numpy's numbers are numbers, paths are texts."""
    import numpy as np

    reasons: dict[str, str] = {}
    document = {
        "a": float("nan"), "b": {"c": [object(), np.int64(3), np.arange(2), float("-inf")]}, "d": Path("x"), "e": b"x",
        1: True,
    }  # fmt: skip
    assert plain(document, reasons) == {
        "a": None, "b": {"c": [None, 3, [0, 1], None]}, "d": "x", "e": None, "1": True,
    }  # fmt: skip
    assert reasons == {
        "a": "NOT_FINITE: nan", "b.c.0": "NOT_JSON: object", "b.c.3": "NOT_FINITE: -inf", "e": "NOT_JSON: bytes",
    }  # fmt: skip
