"""Parts on their way from a player's files to a run's folder: whole, in order, once, whatever the channel does."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.locust.late import LateParts, only_new
from loadgen.locust.merging import LATE, merge_late
from loadgen.locust.messages import PIECE_BYTES
from loadgen.locust.shipping import MOST_UNDER_WAY, RESEND_S, Shipper
from loadgen.locust.spool import Spooled, begin_spool, left_behind, set_owner
from loadgen.locust.storing import PartStore
from loadgen.part_files import PartFiles, pack, part_numbers, unpack
from results.columns import NULL
from results.recording import RecordingPart, empty_part, merge
from results.recovery import read_parts
from results.schedule import make_schedule
from results.status import Status
from results.store import COMPLETE, PartWriter, RunFolder, is_sealed, load_run

Json = dict[str, Any]
INFO = {"target": "http", "clock": "real", "schedule_sha256": "0", "config_effective": {"slo": None}, "config": {}}
GONE_PID = 2**22 + 1
"""More than any process can have."""


def part(*request_ids: int, error: str | None = None, tokens: int = 2) -> RecordingPart:
    """A streaming target's part with these requests ended."""
    tables = {name: dict(table) for name, table in empty_part().tables.items()}
    for name in tables["requests"]:
        tables["requests"][name] = np.full(len(request_ids), NULL, dtype=np.int64)
    tables["requests"]["request_id"] = np.array(request_ids, dtype=np.int64)
    tables["requests"]["status"] = np.zeros(len(request_ids), dtype=np.int64)
    for name in ("finish_reason", "error"):
        tables["requests"][name] = np.full(len(request_ids), error, dtype=object)
    owners = np.repeat(np.array(request_ids, dtype=np.int64), tokens)
    times = np.arange(len(owners), dtype=np.int64) * 1000
    tables["tokens"] = {"request_id": owners, "t_ns": times, "tokens": np.ones(len(owners), dtype=np.int64)}
    return RecordingPart(tables)


def same(one: RecordingPart, other: RecordingPart) -> bool:
    """Whether both hold the same columns with the same values."""
    return all(
        list(table) == list(other.tables[name])
        and all(values.tolist() == other.tables[name][column].tolist() for column, values in table.items())
        for name, table in one.tables.items()
    )


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**40), max_size=8, unique=True), st.none() | st.text(max_size=8))
def test_a_part_comes_back_as_it_was(request_ids: list[int], error: str | None) -> None:
    """Every column of every table, missing texts included, whatever they hold."""
    if error is not None:
        error = error.encode("utf-8", "ignore").decode()
    given_part = part(*request_ids, error=error)
    assert same(unpack(pack(given_part)), given_part)


@pytest.mark.parametrize("cut", [0, 4, 30, 400, -1])
def test_a_part_that_is_cut_off_is_refused(cut: int) -> None:
    """In one line, wherever it ends."""
    with pytest.raises(ValueError, match="no part of a recording") as caught:
        unpack(pack(part(1, 2, 3))[:cut])
    assert "\n" not in str(caught.value)


class Channel:
    """Between a shipper and a store: loses and repeats what it likes, then brings it in order."""

    def __init__(self, spooled: Spooled, folder: Path, seed: int, loss_fraction: float) -> None:
        self.now_s = 0.0
        self.stored: list[int] = []
        self._random = random.Random(seed)
        self._loss_fraction = loss_fraction
        self.shipper = Shipper(spooled, self._to_store, lambda: self.now_s)
        self.store = PartStore(folder, self._stored, self._to_shipper)

    def _is_lost(self) -> bool:
        return self._random.random() < self._loss_fraction

    def _to_store(self, kind: str, message: Json) -> None:
        for _ in range(self._random.choice([1, 1, 2])):
            if not self._is_lost():
                self.store.piece(message)

    def _to_shipper(self, rank: int, number: int) -> None:
        if not self._is_lost():
            self.shipper.acknowledged(number)

    def _stored(self, stored: RecordingPart, rank: int) -> None:
        self.stored += stored.tables["requests"]["request_id"].tolist()

    def run(self, seconds: int) -> None:
        """So long on the shipper's clock."""
        for _ in range(seconds):
            self.now_s += 1.0
            self.shipper.push()


def spooled_parts(tmp_path: Path, parts: list[RecordingPart]) -> Spooled:
    """A spool with these parts."""
    spooled = begin_spool(tmp_path, "a-run", 0)
    files = PartFiles(spooled.parts, lambda number: None)
    for one in parts:
        files.write(one)
    return spooled


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("loss_fraction", [0.0, 0.4])
def test_every_part_is_stored_once_and_in_order(tmp_path: Path, seed: int, loss_fraction: float) -> None:
    """A channel that loses and repeats messages on both ways: all rows once, in order, and an empty spool."""
    spooled = spooled_parts(tmp_path, [part(at) for at in range(12)])
    folder = tmp_path / "run"
    (folder / "parts").mkdir(parents=True)
    channel = Channel(spooled, folder, seed, loss_fraction)
    for number in part_numbers(spooled.parts):
        channel.shipper.add(number)
    channel.run(400)
    assert channel.stored == list(range(12))
    assert channel.shipper.is_done
    assert not part_numbers(spooled.parts)
    channel.store.close()
    assert read_parts(folder / "parts").tables["requests"]["request_id"].tolist() == list(range(12))


def test_no_message_is_larger_than_the_channel_carries(tmp_path: Path) -> None:
    """A large part goes in pieces, and is put together again."""
    random_ids = np.random.default_rng(1).integers(0, 2**60, 120_000)
    large = part(*random_ids.tolist(), tokens=1)
    spooled = spooled_parts(tmp_path, [large])
    sent: list[Json] = []
    shipper = Shipper(spooled, lambda kind, message: sent.append(message))
    shipper.add(0)
    shipper.push()
    assert len(sent) > 1
    assert max(len(message["data"]) for message in sent) <= PIECE_BYTES
    assert same(unpack(b"".join(message["data"] for message in sent)), large)


def test_what_is_not_acknowledged_is_sent_again_and_not_too_soon(tmp_path: Path) -> None:
    """At most a few parts are under way, and each again only after its time."""
    now_s = [0.0]
    sent: list[int] = []
    spooled = spooled_parts(tmp_path, [part(at) for at in range(9)])
    shipper = Shipper(spooled, lambda kind, message: sent.append(message["number"]), lambda: now_s[0])
    for number in range(9):
        shipper.add(number)
    shipper.push()
    now_s[0] = RESEND_S / 2
    shipper.push()
    assert sent == list(range(MOST_UNDER_WAY))
    now_s[0] = RESEND_S
    shipper.push()
    assert sent == [*range(MOST_UNDER_WAY), *range(MOST_UNDER_WAY)]
    assert part_numbers(spooled.parts) == list(range(9))


def test_a_part_is_not_acknowledged_before_it_is_stored(tmp_path: Path) -> None:
    """A disk that refuses: no acknowledgement, so the file stays with the worker."""
    acknowledged: list[int] = []
    nowhere = tmp_path / "not-there"
    store = PartStore(nowhere, lambda stored, rank: None, lambda rank, number: acknowledged.append(number))
    data = pack(part(1))
    with pytest.raises(OSError):
        store.piece({"run": "r", "rank": 0, "number": 0, "piece": 0, "pieces": 1, "data": data})
    assert acknowledged == []


def test_what_a_dead_worker_left_is_found(tmp_path: Path) -> None:
    """Spools whose worker and player are gone, but for those without rows; those of the living are left alone."""
    dead, empty, current = (begin_spool(tmp_path, "a-run", rank) for rank in range(3))
    for spooled in (dead, current):
        PartFiles(spooled.parts, lambda number: None).write(part(1))
    for spooled in (dead, empty, current):
        set_owner(spooled, GONE_PID)
    assert left_behind(tmp_path, current.folder) == [dead]
    assert not empty.folder.exists()


def unfinished_run(out: Path, name: str) -> Path:
    """The folder of a run whose process died."""
    RunFolder(out / name, make_schedule([0, 1, 2], [5, 5, 5], [2, 2, 2]), {})
    return out / name


def piece_of(run: str, number: int, one: RecordingPart) -> Json:
    """A late part in one piece."""
    return {"run": run, "rank": 0, "number": number, "piece": 0, "pieces": 1, "data": pack(one), "worker": "w"}


def test_late_rows_come_into_an_unfinished_run_once(tmp_path: Path) -> None:
    """What was stored but never acknowledged is not counted twice; the rest is added."""
    folder = unfinished_run(tmp_path, "20260101T000000Z-x-abc")
    with PartWriter(folder / "parts", 0) as writer:
        writer.write(part(0))
    acknowledged: list[int] = []
    late = LateParts(tmp_path, lambda message: acknowledged.append(message["number"]))
    late.piece(piece_of(folder.name, 7, part(0)))
    late.piece(piece_of(folder.name, 8, part(1, 2)))
    assert acknowledged == [7, 8]
    tables = read_parts(folder / "parts").tables
    assert tables["requests"]["request_id"].tolist() == [0, 1, 2]
    assert tables["tokens"]["request_id"].tolist() == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("name", ["../outside", "nowhere", "/etc", ""])
def test_late_rows_of_no_unfinished_run_stay_where_they_are(tmp_path: Path, name: str) -> None:
    """No acknowledgement, nothing written, nowhere outside the folder of runs."""
    unfinished_run(tmp_path, "outside")
    acknowledged: list[int] = []
    inside = tmp_path / "runs"
    inside.mkdir()
    LateParts(inside, lambda message: acknowledged.append(message["number"])).piece(piece_of(name, 0, part(1)))
    assert acknowledged == []
    assert not list((tmp_path / "outside" / "parts").iterdir())


def finished_run(out: Path, name: str, *told: RecordingPart) -> Path:
    """The folder of a run of three requests that has ended; of what nobody told, a worker was lost."""
    folder = RunFolder(out / name, make_schedule([0, 1, 2], [5, 5, 5], [2, 2, 2]), dict(INFO), {})
    recording = merge(make_schedule([0, 1, 2], [5, 5, 5], [2, 2, 2]), told)
    status = recording.requests["status"]
    status[status == Status.NOT_DISPATCHED] = Status.WORKER_LOST
    folder.finish(recording, {}, COMPLETE, "2026-01-01T00:00:00+00:00", {})
    return out / name


def test_late_rows_of_a_finished_run_are_kept_beside_its_files(tmp_path: Path) -> None:
    """Acknowledged when they are there; no file of the run changes, and rows that it has are not kept again."""
    folder = finished_run(tmp_path, "20260101T000000Z-x-abc", part(0))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    acknowledged: list[int] = []
    late = LateParts(tmp_path, lambda message: acknowledged.append(message["number"]))
    late.piece(piece_of(folder.name, 3, part(0, 1)))
    late.piece(piece_of(folder.name, 4, part(1, 2)))
    assert acknowledged == [3, 4]
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    tables = read_parts(folder / LATE / "parts").tables
    assert tables["requests"]["request_id"].tolist() == [1, 2]
    assert tables["tokens"]["request_id"].tolist() == [1, 1, 2, 2]


def test_late_rows_and_their_run_make_the_run_that_lost_nothing(tmp_path: Path) -> None:
    """The same digest as if all had come in time; of a request that nobody told of, the worker is lost still."""
    whole = finished_run(tmp_path, "whole", part(0), part(1))
    folder = finished_run(tmp_path, "20260101T000000Z-x-abc", part(0))
    LateParts(tmp_path, lambda message: None).piece(piece_of(folder.name, 0, part(1)))
    merged = merge_late(folder)
    assert merged != folder
    run, wanted = load_run(merged), load_run(whole)
    assert run.info["digest_sha256"] == wanted.info["digest_sha256"]
    assert run.recording.requests["status"].tolist() == [Status.OK, Status.OK, Status.WORKER_LOST]
    times, wanted_times = (np.asarray(one.recording.token_t_ns) for one in (run, wanted))
    assert times.tolist() == wanted_times.tolist()
    assert (run.info["merged_from"], run.info["late_requests"]) == (folder.name, 1)
    assert is_sealed(run.info)
    assert (merged / "report.html").is_file()
    assert load_run(folder).recording.requests["status"].tolist() == [Status.OK, *[Status.WORKER_LOST] * 2]


def test_a_run_without_late_rows_is_not_merged(tmp_path: Path) -> None:
    """Nor one that goes on, nor one twice: one line each."""
    with pytest.raises(ValueError, match="no late rows"):
        merge_late(finished_run(tmp_path, "whole", part(0)))
    with pytest.raises(ValueError, match="has not ended"):
        merge_late(unfinished_run(tmp_path, "on"))
    folder = finished_run(tmp_path, "lost", part(0))
    LateParts(tmp_path, lambda message: None).piece(piece_of(folder.name, 0, part(1)))
    merge_late(folder)
    with pytest.raises(FileExistsError, match="exists"):
        merge_late(folder)


def test_only_new_rows_are_written() -> None:
    """Rows of requests that are there are left out, those of others kept."""
    kept = only_new(part(1, 2), part(2, 3))
    assert kept.tables["requests"]["request_id"].tolist() == [1]
    assert kept.tables["tokens"]["request_id"].tolist() == [1, 1]
    kept = only_new(part(1, 2, 3), part(2), np.array([3]))
    assert kept.tables["requests"]["request_id"].tolist() == [1]
