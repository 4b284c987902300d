"""Limits of the control groups this process is in, version 1 or 2, from its own group up to the topmost in sight.

A limit of any group above binds too, so the tightest one counts.
"""

from collections.abc import Iterator
from pathlib import Path

from results.stamp.kernel import MissingError, text

MOUNT = "sys/fs/cgroup"
UNLIMITED_BYTES = 2**60
"""Version 1 writes "no limit" as a number about as large as an int64 holds."""
US_PER_NS = 1e-3


def cpu_quota(root: Path) -> float:
    """CPUs' worth of time a period. MissingError when nothing limits it."""
    quotas = [quota for folder in _groups(root, "cpu") if (quota := _quota(root, folder)) is not None]
    if not quotas:
        raise MissingError("NO_LIMIT: cpu.max")
    return min(quotas)


def memory_limit_bytes(root: Path) -> int:
    """The tightest limit. MissingError when nothing limits it."""
    limits = []
    for folder in _groups(root, "memory"):
        content = _first(root, folder, "memory.max", "memory.limit_in_bytes")
        if content is not None and content != "max" and int(content) < UNLIMITED_BYTES:
            limits.append(int(content))
    if not limits:
        raise MissingError("NO_LIMIT: memory.max")
    return min(limits)


def memory_used_bytes(root: Path) -> int:
    """By the process's own group."""
    for folder in _groups(root, "memory"):
        content = _first(root, folder, "memory.current", "memory.usage_in_bytes")
        if content is not None:
            return int(content)
    raise MissingError("NO_FILE: memory.current")


def cpuset(root: Path) -> str:
    """CPUs that the group may use, as a list such as 0-3,8."""
    for folder in _groups(root, "cpuset"):
        content = _first(root, folder, "cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus")
        if content:
            return content
    raise MissingError("NO_FILE: cpuset.cpus")


def throttled_us(root: Path) -> int:
    """Since the groups began: time in which the quota was used up, summed over the groups in sight."""
    return sum(_throttled(stat) for stat in _cpu_stats(root))


def throttled_periods(root: Path) -> int:
    """Since the groups began."""
    return sum(stat.get("nr_throttled", 0) for stat in _cpu_stats(root))


def _throttled(stat: dict[str, int]) -> int:
    if "throttled_usec" in stat:
        return stat["throttled_usec"]
    return int(stat.get("throttled_time", 0) * US_PER_NS)


def _cpu_stats(root: Path) -> list[dict[str, int]]:
    found = []
    for folder in _groups(root, "cpu"):
        content = _first(root, folder, "cpu.stat")
        stat = {name: int(value) for name, value in (line.split() for line in (content or "").splitlines())}
        if "nr_throttled" in stat:
            found.append(stat)
    if not found:
        raise MissingError("NO_FILE: cpu.stat with nr_throttled")
    return found


def _quota(root: Path, folder: Path) -> float | None:
    content = _first(root, folder, "cpu.max")
    if content is not None:
        quota, period = content.split()
        return None if quota == "max" else int(quota) / int(period)
    quota_us = _first(root, folder, "cpu.cfs_quota_us")
    period_us = _first(root, folder, "cpu.cfs_period_us")
    if quota_us is None or period_us is None or int(quota_us) < 0:
        return None
    return int(quota_us) / int(period_us)


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Folders of the process's group and of those above it, for one controller; those that are in sight."""
    for line in text(root, "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        mounts = (root / MOUNT / name for name in ((controllers, controller) if controllers else ("", "unified")))
        top = next((mount for mount in mounts if _is_group(mount)), None)
        if top is not None:
            folder = top / path.lstrip("/")
            yield from (one for one in (folder, *folder.parents) if one.is_relative_to(top) and _is_group(one))


def _is_group(folder: Path) -> bool:
    """The folder above version 1's mounts is not a group."""
    return (folder / "cgroup.procs").exists()


def _first(root: Path, folder: Path, *names: str) -> str | None:
    """The text of the first of these files that is there."""
    for name in names:
        try:
            return text(root, str((folder / name).relative_to(root)))
        except MissingError:
            continue
    return None
