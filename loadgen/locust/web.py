"""Our part of locust's web UI: the tabs "LLM" and "LLM report", the rows to download, and a page of our own beside.

Locust's bundle has no place for charts: a script on its page mounts ours below its tabs. Touches of locust that it
does not promise: `template_args`, the endpoints `locust.index` and `locust.request_stats`, and of its page
`.MuiTabs-root`, `.MuiContainer-root`, `.MuiAccordion-root` and the names of its form's fields. Where they are gone,
/llm/ shows the same.
"""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from flask import Blueprint, Response, abort, jsonify, request, send_file
from locust.runners import STATE_INIT, STATE_SPAWNING

from loadgen.locust.downloads import DOWNLOADS, DownloadError, available, csv_lines
from loadgen.locust.exact import install_exact
from loadgen.locust.live import LiveView

STATIC = Path(__file__).parent / "static"
STATIC_FILES = {"llm.js": "text/javascript", "charts.js": "text/javascript", "llm.css": "text/css"}
TABS = ({"title": "LLM", "key": "llm"}, {"title": "LLM report", "key": "llm-report"})
SCRIPTS = (
    '<link rel="stylesheet" href="./llm/llm.css">'
    '<script src="./llm/charts.js"></script><script src="./llm/llm.js"></script>'
)
NO_REPORT = "No run has ended yet: the report is written when one does."
REPORT_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
"""A report is one file and asks for nothing."""
View = Callable[..., Any]


def install_web(environment: Any, live: LiveView) -> None:
    """In the init hook: exact rows in locust's statistics; where there is a web UI, our tabs in it."""
    if getattr(environment, "tokenload_web", None) is live:
        return
    environment.tokenload_web = live
    install_exact(environment, live)
    web_ui = environment.web_ui
    if web_ui is None:
        return
    _extend_page(web_ui)
    _tell_of_preparing(web_ui, live)
    base = (getattr(environment.parsed_options, "web_base_path", None) or "").rstrip("/")
    pages = _blueprint(environment, live, web_ui.auth_required_if_enabled)
    web_ui.app.register_blueprint(pages, url_prefix=f"{base}/llm")


def _extend_page(web_ui: Any) -> None:
    """Tabs and links in locust's own page, and our script at its end."""
    links = [{"title": f"Download LLM {title}", "href": f"./llm/rows/{name}"} for name, title in DOWNLOADS.items()]
    for key, ours in (("extended_tabs", list(TABS)), ("extended_csv_files", links)):
        web_ui.template_args[key] = [*(web_ui.template_args.get(key) or []), *ours]

    @web_ui.app.after_request  # type: ignore[untyped-decorator]
    def _with_scripts(response: Response) -> Response:
        is_page = request.endpoint == "locust.index" and response.mimetype == "text/html"
        if is_page and response.status_code == 200:  # noqa: PLR2004
            response.set_data(response.get_data(as_text=True).replace("</body>", f"{SCRIPTS}</body>"))
        return response


def _tell_of_preparing(web_ui: Any, live: LiveView) -> None:
    """Locust says that it is ready while a run is prepared, and its page would go back to the form."""

    @web_ui.app.after_request  # type: ignore[untyped-decorator]
    def _as_spawning(response: Response) -> Response:
        if live.is_preparing and request.endpoint == "locust.request_stats" and response.is_json:
            told = response.get_json()
            if told.get("state") == STATE_INIT:
                response.set_data(json.dumps({**told, "state": STATE_SPAWNING}))
        return response


def _blueprint(environment: Any, live: LiveView, guarded: Callable[[View], View]) -> Blueprint:
    """Our routes, each behind locust's login where there is one."""
    pages = Blueprint("tokenload", __name__)
    routes: dict[str, View] = {
        "/": _page,
        "/live.json": lambda: _live(environment, live),
        "/plotly.js": _plotly,
        "/<name>": _static,
        "/report": lambda: _report(live),
        "/rows/<name>": lambda name: _rows(live, name),
    }
    for rule, view in routes.items():
        pages.add_url_rule(rule, rule.strip("/").replace(".", "-") or "page", guarded(view))
    return pages


def _page() -> Response:
    """The LLM tab alone, for a page of locust that has changed."""
    return Response((STATIC / "page.html").read_bytes(), mimetype="text/html")


def _live(environment: Any, live: LiveView) -> Response:
    """With the state of locust: its page stops asking for it while a run drains, and would never show the end."""
    state = environment.runner.state if environment.runner is not None else None
    reply = jsonify({**live.snapshot(), "locust_state": state, "rows": available(live.folder)})
    reply.headers["Cache-Control"] = "no-store"
    return reply


def _plotly() -> Response:
    """From the wheel: nothing is asked of another machine. The browser keeps it."""
    reply = Response(_plotly_script(), mimetype="text/javascript")
    reply.headers["Cache-Control"] = "private, max-age=86400"
    return reply


@cache
def _plotly_script() -> bytes:
    from plotly.offline import get_plotlyjs

    return bytes(get_plotlyjs().encode())


def _static(name: str) -> Response:
    if name not in STATIC_FILES:
        abort(404)
    return Response((STATIC / name).read_bytes(), mimetype=STATIC_FILES[name])


def _report(live: LiveView) -> Response:
    path = live.folder / "report.html" if live.folder is not None else None
    if path is None or not path.is_file():
        return _refusal(NO_REPORT)
    reply = send_file(path.resolve(), mimetype="text/html", max_age=0)
    reply.headers["Content-Security-Policy"] = REPORT_POLICY
    return reply


def _rows(live: LiveView, name: str) -> Response:
    if name not in DOWNLOADS:
        abort(404)
    if live.folder is None:
        return _refusal("No run has ended yet: its rows can be downloaded when one has.")
    path = live.folder / name
    if name.endswith(".csv"):
        try:
            reply = Response(csv_lines(live.folder, name), mimetype="text/csv")
        except DownloadError as error:
            return _refusal(str(error))
        reply.headers["Content-Disposition"] = f'attachment; filename="{live.folder.name}-{name}"'
        return reply
    if not path.is_file():
        return _refusal(f"This run has no {name}.")
    return send_file(path.resolve(), as_attachment=True, download_name=f"{live.folder.name}-{name}", max_age=0)


def _refusal(text: str) -> Response:
    return Response(text, status=404, mimetype="text/plain")
