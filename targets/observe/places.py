"""Where servers tell about themselves, and how such a place may be written down."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from results.stamp.redaction import redact_text
from targets.observe.documents import DOCUMENTS

METRICS = "metrics"
AT_FIRST = (METRICS, "slots", "props")
BESIDE = {"llamacpp": ("slots", "props"), "vllm": ("load",), "sglang": ("get_server_info",)}
"""What else is asked beside a metrics URL whose page shows such names."""
ONCE = ("props", "get_server_info")
"""Settings do not change: asked at the start and at the end only."""
MOST_PLACES = 64
SCHEMES = ("http", "https")


@dataclass(frozen=True, slots=True)
class Place:
    """One URL that is asked."""

    url: str
    shown: str
    """Without login and query, and unlike that of any other place of the run."""
    document: str | None
    """Which JSON document it tells; None: Prometheus' text."""

    @property
    def once(self) -> bool:
        """Whether the start and the end are enough."""
        return self.document in ONCE


def metrics_urls_of(base_url: str) -> tuple[str, ...]:
    """Where to look when the user names no place: beside the API's /v1.

    What else a server has is asked once its metrics show which kind it is.
    """
    parts = urlsplit(_over_http(base_url))
    root = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
    return tuple(urlunsplit((parts.scheme, parts.netloc, f"{root}/{name}", "", "")) for name in AT_FIRST)


def steps_url_of(base_url: str) -> str:
    """Where `tokenload serve` tells its steps, beside its API; no other server has such a place."""
    parts = urlsplit(_over_http(base_url))
    root = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
    return urlunsplit((parts.scheme, parts.netloc, f"{root}/tokenload/steps", "", ""))


def check_urls(urls: Sequence[str]) -> None:
    """ValueError, in one line with the remedy, for what cannot be asked."""
    if len(urls) > MOST_PLACES:
        raise ValueError(f"{len(urls)} metrics URLs: at most {MOST_PLACES} can be asked each second")
    for url in urls:
        try:
            parts = urlsplit(url)
            usable = parts.scheme in SCHEMES and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        except ValueError:
            usable = False
        if not usable:
            raise ValueError(f"metrics URL {shown(url)!r}: give it as http://HOST:PORT/metrics")


def places_of(urls: Sequence[str]) -> list[Place]:
    """Each URL once, in order."""
    places: list[Place] = []
    for url in dict.fromkeys(urls):
        add(places, url)
    return places


def add(places: list[Place], url: str) -> Place | None:
    """Put it behind the others; None: it is there, or there are too many."""
    if len(places) >= MOST_PLACES or any(place.url == url for place in places):
        return None
    text = shown(url)
    alike = sum(place.shown.partition("#")[0] == text for place in places)
    last = urlsplit(url).path.rpartition("/")[2]
    place = Place(url, f"{text}#{alike + 1}" if alike else text, last if last in DOCUMENTS else None)
    places.append(place)
    return place


def beside(url: str, kind: str) -> tuple[str, ...]:
    """What a kind of server has beside its metrics URL."""
    parts = urlsplit(url)
    folder = parts.path.rpartition("/")[0]
    return tuple(urlunsplit((parts.scheme, parts.netloc, f"{folder}/{name}", "", "")) for name in BESIDE.get(kind, ()))


def shown(url: str) -> str:
    """A URL without what may be a secret: login, query and fragment."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        text = redact_text(f"{parts.scheme}://{host}{parts.path}")
        return "".join(char for char in text if char.isprintable())
    except ValueError:
        return "(no URL)"


def origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port: to other origins no header of the target's goes."""
    parts = urlsplit(_over_http(url))
    return parts.scheme, parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _over_http(url: str) -> str:
    """What is asked through a unix socket is asked of localhost, as the target's requests are."""
    return "http://localhost" if url.startswith("unix:") else url
