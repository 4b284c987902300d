"""Shards of a schedule: which requests each of several processes sends.

Request i belongs to shard i mod N; requests that wait for others stay with those, since their moment depends on
an end that only one process sees.
"""

import hashlib

import numpy as np

from results.columns import Int64, int64
from results.schedule import Schedule


def shard(schedule: Schedule, rank: int, shards: int) -> Int64:
    """Ids of one shard, rising. The shards of a schedule cover it, each request once."""
    ids = np.arange(len(schedule), dtype=np.int64)
    if not len(schedule.after_ids):
        return ids[rank::shards]
    roots = _roots(schedule)
    _, group = np.unique(roots, return_inverse=True)
    return int64(ids[group % shards == rank])


def shard_sha256(schedule: Schedule, ids: Int64) -> str:
    """Of the schedule's shape and these ids of it: two processes with it equal would send the same."""
    return hashlib.sha256(schedule.sha256.encode() + ids.astype("<i8", copy=False).tobytes()).hexdigest()


def _roots(schedule: Schedule) -> Int64:
    """Of each request, the lowest id among all that are tied to it by waiting."""
    root = list(range(len(schedule)))

    def find(request_id: int) -> int:
        while root[request_id] != request_id:
            root[request_id] = root[root[request_id]]
            request_id = root[request_id]
        return request_id

    for request_id in range(len(schedule)):
        for other in schedule.after(request_id).tolist():
            low, high = sorted((find(request_id), find(other)))
            root[high] = low
    return int64([find(request_id) for request_id in range(len(schedule))])
