"""Files in which the kernel tells of itself, under a root that a test may choose."""

from collections.abc import Iterator
from pathlib import Path


class MissingError(LookupError):
    """A fact that cannot be known here; its text is the reason: a code, then what was looked for."""


def text(root: Path, path: str) -> str:
    """A file's text without the blanks around it. MissingError when there is none, or none for us."""
    try:
        return (root / path).read_text(errors="replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        raise MissingError(f"NO_FILE: /{path}") from None
    except OSError as error:
        raise MissingError(f"UNREADABLE: /{path}, {type(error).__name__}") from None


def whole(root: Path, path: str) -> int:
    """A file that holds one whole number. MissingError when it holds something else."""
    content = text(root, path)
    try:
        return int(content)
    except ValueError:
        raise MissingError(f"NOT_A_NUMBER: /{path}") from None


def folders(root: Path, pattern: str) -> list[Path]:
    """What matches, in numeric order: cpu2 before cpu10. MissingError when nothing does."""
    found = sorted(root.glob(pattern), key=lambda path: (len(path.name), path.name))
    if not found:
        raise MissingError(f"NO_FILE: /{pattern}")
    return found


def distinct(root: Path, pattern: str) -> list[str]:
    """The different texts of all files that match, sorted. MissingError when none can be read."""
    return sorted({text(root, str(path.relative_to(root))) for path in folders(root, pattern)})


def chosen(content: str) -> str:
    """Of a list of choices the one in brackets: `madvise` of `always [madvise] never`."""
    return content.partition("[")[2].partition("]")[0] or content


def first_cpu(root: Path) -> dict[str, str]:
    """The first block of /proc/cpuinfo; the rest is not read."""
    try:
        with (root / "proc/cpuinfo").open(errors="replace") as file:
            return dict(_pairs(file))
    except OSError:
        raise MissingError("NO_FILE: /proc/cpuinfo") from None


def _pairs(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        if not line.strip():
            return
        name, _, value = line.partition(":")
        yield name.strip(), value.strip()


def cpu_value(root: Path, *names: str) -> str:
    """The first of these entries in /proc/cpuinfo (architectures differ). MissingError when none is there."""
    found = first_cpu(root)
    for name in names:
        if found.get(name):
            return found[name]
    raise MissingError(f"NOT_TOLD: {names[0]} in /proc/cpuinfo")


def memory_bytes(root: Path, name: str) -> int:
    """An entry of /proc/meminfo."""
    return _kib(root, "proc/meminfo", name) * 1024


def _kib(root: Path, path: str, name: str) -> int:
    for line in text(root, path).splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0])
    raise MissingError(f"NOT_TOLD: {name} in /{path}")


def run_queue_wait_ns(root: Path) -> int:
    """How long the process's main thread was ready to run and did not."""
    parts = text(root, "proc/self/schedstat").split()
    if len(parts) != 3:  # noqa: PLR2004 - time on the CPU, time waiting for it, turns
        raise MissingError("NOT_TOLD: /proc/self/schedstat")
    return int(parts[1])


def load_average(root: Path) -> float:
    """Runnable and uninterruptible threads, averaged over about a minute."""
    return float(text(root, "proc/loadavg").split()[0])


def runnable_threads(root: Path) -> int:
    """On the whole machine, at this moment, the asking one included."""
    return int(text(root, "proc/loadavg").split()[3].partition("/")[0])


def pressure_total_us(root: Path, resource: str, kind: str) -> int:
    """Since boot: time in which some, or all (`full`), tasks waited for cpu, memory or io."""
    return int(_pressure(root, resource, kind)["total"])


def pressure_fraction(root: Path, resource: str) -> float:
    """Share of the last 10 s in which some task waited for cpu, memory or io."""
    return float(_pressure(root, resource, "some")["avg10"]) / 100


def _pressure(root: Path, resource: str, kind: str) -> dict[str, str]:
    path = f"proc/pressure/{resource}"
    for line in text(root, path).splitlines():
        first, *pairs = line.split()
        if first == kind:
            return dict(pair.split("=", 1) for pair in pairs)
    raise MissingError(f"NOT_TOLD: {kind} in /{path}")


def cpu_ticks(root: Path) -> dict[str, int]:
    """Of all CPUs since boot, in clock ticks: total, busy (not idle, not waiting for a disk), steal."""
    parts = text(root, "proc/stat").splitlines()[0].split()[1:9]
    if len(parts) < 8:  # noqa: PLR2004 - user nice system idle iowait irq softirq steal
        raise MissingError("NOT_TOLD: steal in /proc/stat")
    user, nice, system, idle, iowait, irq, softirq, steal = (int(part) for part in parts)
    busy = user + nice + system + irq + softirq
    return {"total": busy + idle + iowait + steal, "busy": busy, "steal": steal}
