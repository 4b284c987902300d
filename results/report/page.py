"""The page, put together: one HTML file that needs nothing else, the same bytes for the same folder."""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from results.report.answer import STATES, answer_table, sentences
from results.report.belief import belief_of
from results.report.bundle import packed_plotly
from results.report.charts import Chart, rate_charts
from results.report.claim_table import judged_claims
from results.report.folder import Folder, read_folder
from results.report.glossary import definitions
from results.report.http_section import http_section
from results.report.page_seal import sealed
from results.report.pictures import Missing, flight_charts, slot_drawings
from results.report.plain import plain, script_json
from results.report.recipe import recipe
from results.report.scorecard import scorecard, slot_table
from results.report.server_charts import server_charts
from results.report.server_steps import tells_steps
from results.report.share_charts import share_charts
from results.report.split_table import split_table
from results.report.stamp import conditions_line, stamp
from results.report.titles import hashes, title_of
from results.report.uncertainty import uncertainty_table, window_table

HERE = Path(__file__).parent


def write_report(folder: Path) -> Path:
    """Write report.html into a run folder or a sweep folder. ValueError in one line when it is neither."""
    path = folder / "report.html"
    partial = path.with_suffix(".partial")
    partial.write_text(page(read_folder(folder)), encoding="utf-8")
    partial.replace(path)
    return path


def page(folder: Folder) -> str:
    """The HTML document."""
    sweep = folder.kind == "sweep"
    local = bool(folder.local_engines) or not folder.servers
    flights = flight_charts(folder) if sweep or local else ()
    charts = (*(rate_charts(folder) if sweep else ()), *flights)
    shares = share_charts(folder)
    observed = server_charts(folder)
    template = _environment().get_template("page.html.j2")
    text = template.render(
        folder=folder,
        title=title_of(folder),
        belief=belief_of(folder),
        sentences=sentences(folder),
        answer=answer_table(folder),
        scorecard=scorecard(folder),
        uncertainty=uncertainty_table(folder),
        windows=window_table(folder),
        splits=split_table(folder),
        slots=slot_table(folder) if local else None,
        charts=charts,
        shares=shares,
        states=STATES,
        drawings=slot_drawings(folder) if local else None,
        http=http_section(folder) if folder.servers else None,
        observed=observed,
        conditions=conditions_line(folder),
        stamp=stamp(folder),
        claims=judged_claims(folder) if sweep and local else (),
        hashes=hashes(folder),
        definitions=definitions(local, bool(folder.servers), tells_steps(folder)),
        chart_json=_trusted(script_json({chart.id: _figure(chart) for chart in (*charts, *shares, *observed)})),
        recipe_json=_trusted(script_json(recipe(folder))),
        plotly=_trusted(packed_plotly()),
        style=_trusted((HERE / "page.css").read_text(encoding="utf-8")),
        script=_trusted((HERE / "page.js").read_text(encoding="utf-8")),
    )
    return sealed(text)


def _environment() -> Environment:
    """Everything that is written is escaped, and no control character is left in it."""
    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible,
    )
    environment.tests["missing_picture"] = lambda drawing: isinstance(drawing, Missing)
    return environment


def _visible(value: Any) -> Any:
    return value if isinstance(value, Markup) or not isinstance(value, str) else plain(value)


def _trusted(text: str) -> Markup:
    """Our own style, script and packed data: not escaped."""
    return Markup(text)


def _figure(chart: Chart) -> dict[str, Any]:
    return {"data": list(chart.data), "layout": chart.layout}
