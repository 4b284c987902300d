"""The server's side of a run: what it tells of itself while it is under load, on the run's time axis."""

from ipaddress import ip_address
from pathlib import Path
from typing import Any

from loadgen.config import RunConfig
from results.server.step_table import read_told_steps, write_server_steps
from results.server.summary import server_summary
from results.server.table import read_scrapes, write_server
from targets.observe.places import metrics_urls_of, steps_url_of
from targets.observe.scrape import ServerScrape
from targets.transport.endpoint import Endpoint

Json = dict[str, Any]


class ServerWatch:
    """Asks the server once a second, in a process of its own."""

    def __init__(self, config: RunConfig, endpoint: Endpoint) -> None:
        """Starts nothing."""
        self._config = config
        self._endpoint = endpoint
        self._scrape: ServerScrape | None = None
        self._folder: Path | None = None
        self._origin_ns: int | None = None
        self.steps_told = ""
        """After the end: "told", or why the server's own steps are not there."""

    def start(self, folder: Path) -> None:
        """Before the warm-up; its rows go into the run's folder. ValueError for a place that cannot be asked."""
        config, endpoint = self._config, self._endpoint
        self._folder = folder
        self._scrape = ServerScrape(
            urls=config.metrics_url or metrics_urls_of(config.target or ""),
            parts=folder / "parts",
            headers=dict(endpoint.headers),
            origin_url=config.target or "",
            verify_tls=endpoint.verify_tls,
            ca_file=None if endpoint.ca_file is None else Path(endpoint.ca_file),
            unix_socket=None if endpoint.unix_socket is None else Path(endpoint.unix_socket),
            steps_url=steps_url_of(config.target or ""),
        )
        self._scrape.start()

    async def ready(self) -> None:
        """The first round has been made, or takes too long."""
        if self._scrape is not None:
            await self._scrape.first_scrape()

    def begin(self, origin_ns: int) -> None:
        """Time 0 of the run."""
        self._origin_ns = origin_ns
        if self._scrape is not None:
            self._scrape.start_run(origin_ns)

    def end(self) -> Json:
        """A last round, and the server's own steps where it tells them; the tables are written, and what the scrapes
        come to is told. {} when nothing was watched."""
        if self._scrape is None or self._folder is None:
            return {}
        scrape, self._scrape = self._scrape, None
        scrape.stop()
        if self._origin_ns is None:
            return {}
        table = read_scrapes(self._folder / "parts", self._origin_ns)
        write_server(table, self._folder)
        self._write_steps(self._folder, self._origin_ns)
        return server_summary(table, slots=self._config.slots)

    def _write_steps(self, folder: Path, origin_ns: int) -> None:
        """Of a server that tells its steps; of another there is no file, and the reason is a fact of the run."""
        steps = read_told_steps(folder / "parts", origin_ns, is_this_host(self._endpoint))
        self.steps_told = steps.reason or "told"
        if steps.begin_step is not None:
            write_server_steps(steps, folder)


def is_this_host(endpoint: Endpoint) -> bool:
    """Whether the server's clock is this one by its address: a unix socket or the loopback."""
    if endpoint.unix_socket is not None or endpoint.host == "localhost":
        return True
    try:
        return ip_address(endpoint.host).is_loopback
    except ValueError:
        return False
