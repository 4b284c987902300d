"use strict";
// The LLM tab and the LLM report tab. Everything a server or a user wrote goes in as text, never as markup.
(() => {
  const base = document.getElementById("llm-alone") ? "./" : "./llm/";
  const POLL_MS = 1000, LOOK_MS = 400, UNSTICK_AFTER_LOOKS = 6;
  const NONE = "–";
  const QUANTILES = ["mean", "p50", "p90", "p95", "p99", "max"];
  const WHY = {
    FAILED_TAIL: "failed requests count as infinite",
    N_TOO_SMALL: "too few values for this quantile",
    NO_VALUES: "nothing has been measured yet",
  };
  const ROWS = [
    ["requests", "requests", ["parquet", "csv"]], ["tokens", "tokens", ["parquet", "csv"]],
    ["steps", "engine steps", ["parquet"]], ["server", "server metrics", ["parquet"]], ["host", "host samples", ["parquet"]],
    ["schedule", "schedule", ["parquet"]], ["summary", "summary", ["json"]],
  ];
  const UNUSED = {
    userCount: "Not used by the LLM load: requests come from the schedule, however many users there are.",
    spawnRate: "Not used by the LLM load: there is no ramp, every request has its own due time.",
    host: "Not used by the LLM load: the server is “target” below.",
    runTime: "Not used by the LLM load: “duration” or “requests” below say when it ends.",
  };
  const FIRST = ["target", "served_model", "api", "engine", "arrival", "rate", "rates", "requests", "duration", "trace",
    "prompt_tokens", "output_tokens", "slo", "seed", "clock"];
  let latest = null, panel = null, parts = null, plotly = null, shownReport = null, unreachable = false, drawn = "";

  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  };
  const fill = (element, ...children) => element.replaceChildren(...children.filter((child) => child));

  const number = (value, digits = 3) => {
    if (value === null || value === undefined) return NONE;
    if (value === 0) return "0";
    const size = Math.floor(Math.log10(Math.abs(value)));
    const decimals = Math.max(0, Math.min(digits - 1 - size, 4));
    return value.toLocaleString("en-GB", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  };
  const whole = (value) => (value === null || value === undefined ? NONE : Math.round(value).toLocaleString("en-GB"));
  const percent = (value) => (value === null || value === undefined ? NONE : `${(100 * value).toFixed(1)} %`);

  const isDark = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const parts = (getComputedStyle(at).backgroundColor.match(/[\d.]+/g) || []).map(Number);
      if (parts.length === 3 || (parts.length === 4 && parts[3] > 0)) return (parts[0] + parts[1] + parts[2]) / 3 < 128;
    }
    return matchMedia("(prefers-color-scheme: dark)").matches;
  };

  const build = () => {
    const section = (name, title) => {
      const body = make("div", { class: `llm-${name}` });
      const whole = make("section", { hidden: "" }, make("h2", {}, title), body);
      return { whole, body };
    };
    const head = make("div", { class: "llm-head" });
    const alarms = make("div", { class: "llm-alarms", role: "alert" });
    const tiles = make("dl", { class: "llm-tiles" });
    const table = make("div", { class: "llm-scroll" });
    const figures = {};
    for (const chart of window.tokenloadCharts.CHARTS) {
      figures[chart.id] = make("figure", { id: `llm-chart-${chart.id}` },
        make("figcaption", {}, make("b", {}, chart.title), `, ${chart.unit}`), make("div", { class: "llm-plot" }));
    }
    const charts = make("div", { class: "llm-grid" }, ...Object.values(figures));
    const faint = make("p", { class: "llm-muted llm-faint", hidden: "" },
      "Faint: requests that are due and have not ended are still missing there.");
    const failures = section("failures", "Failures by kind");
    const workers = section("workers", "Workers");
    const rows = section("rows", "Rows of this run");
    const below = make("div", { class: "llm-below" }, failures.whole, workers.whole, rows.whole);
    const empty = make("p", { class: "llm-empty", hidden: "" });
    const body = make("div", {}, tiles, table, charts, faint, below);
    const root = make("div", { id: "llm-panel", class: "llm" }, alarms, head, empty, body);
    parts = { head, alarms, tiles, table, figures, failures, workers, rows, empty, faint, body };
    return root;
  };

  const verdictLine = (told) => {
    const verdict = told.verdict;
    if (!verdict) return null;
    const word = verdict.valid ? `VALID, ${verdict.label}: ${verdict.suffices_for}` : "INVALID";
    const reasons = verdict.reasons.map((one) => make("li", {}, make("b", {}, one.code), ` ${one.text}`));
    return make("div", { class: `llm-verdict ${verdict.valid ? "llm-good" : "llm-bad"}` },
      make("b", {}, word), reasons.length ? make("ul", {}, ...reasons) : null);
  };

  const head = (told) => {
    const words = { running: "running", ended: "ended" };
    const measured = told.counts.ended, share = told.scheduled ? measured / told.scheduled : 0;
    const bar = make("div", { class: "llm-progress", role: "progressbar", "aria-label": "requests that have ended",
      "aria-valuenow": Math.round(100 * share), "aria-valuemin": 0, "aria-valuemax": 100 }, make("i", { style: `width:${100 * share}%` }));
    fill(parts.head,
      make("div", { class: "llm-title" },
        make("span", { class: `llm-state llm-${told.state}` }, words[told.state] || told.state),
        make("span", { class: "llm-load" }, told.load),
        make("span", { class: "llm-muted" }, told.clock === "real" ? "" : `${told.clock} time`)),
      make("div", { class: "llm-muted llm-sub" },
        `${number(told.time_s)} s · ${whole(measured)} of ${whole(told.scheduled)} requests have ended · schedule `,
        make("code", { title: told.schedule_sha256 }, told.schedule_sha256.slice(0, 12))),
      bar, verdictLine(told));
  };

  const alarms = (told) => {
    const lines = (told.alarms || []).map((one) => make("p", { "data-kind": one.kind }, one.text));
    if (unreachable) lines.unshift(make("p", { "data-kind": "gone" }, "Locust does not answer: what is below is not live."));
    const text = lines.map((one) => one.textContent).join("|");
    if (parts.alarms.dataset.text === text) return;
    parts.alarms.dataset.text = text;
    parts.alarms.hidden = !lines.length;
    fill(parts.alarms, ...lines);
  };

  // Above everything, on whatever page of locust's is open: a start that failed leaves its form as it was.
  const heading = (told) => {
    const text = told.failure ? `The LLM run failed: ${told.failure}`
      : told.preparing ? "The LLM run is being prepared: the workers get their requests and connect." : "";
    let banner = document.getElementById("llm-heading");
    if (!text) return banner && banner.remove();
    if (!banner) {
      banner = make("div", { id: "llm-heading", role: "status" });
      document.body.prepend(banner);
    }
    banner.className = told.failure ? "llm-failure" : "llm-preparing";
    if (banner.textContent !== text) banner.textContent = text;
    return undefined;
  };

  const tiles = (told) => {
    const now = told.now, counts = told.counts, server = now.server || {};
    const last = now.whole_run ? "over the run" : now.seconds ? `last ${now.seconds}\u00a0s` : "from 1 s on";
    const untold = (value) => value === null || value === undefined;
    const flight = now.whole_run ? "requests, mean" : "requests, newest second";
    const tile = (name, value, note, bad) => make("div", { class: bad ? "llm-tile llm-warn" : "llm-tile" },
      make("dt", {}, name), make("dd", {}, value, make("small", {}, note)));
    const slo = told.slo ? `within ${told.slo.replaceAll(",", ", ")}` : "no SLO given";
    fill(parts.tiles,
      tile("Arrivals", number(now.arrivals_rps), `requests/s, ${last}`),
      tile("Completions", number(now.completions_rps), `requests/s, ${last}`),
      tile("Output tokens", number(now.output_tokens_per_s), `tokens/s, ${last}`),
      tile("In flight", number(now.in_flight), flight),
      now.whole_run ? null : tile("Queue", number(now.queue), untold(now.queue) ? "not told here" : "waiting for a slot"),
      tile("Wasted slots", percent(now.wasted_slot_fraction), untold(now.wasted_slot_fraction) ? "not told here" : "of computed slot-steps"),
      tile("Unused slots", percent(now.unused_slot_fraction), untold(now.unused_slot_fraction) ? "not told here" : "of all slot-steps"),
      untold(server.running_requests) ? null : tile("Running", number(server.running_requests), "requests, by the server"),
      untold(server.kv_used_fraction) ? null : tile("KV cache", percent(server.kv_used_fraction), "in use, by the server"),
      tile("SLO attainment", percent(counts.attainment), slo),
      tile("Failed", whole(counts.failed), `of ${whole(counts.ended)} ended`, counts.failed > 0));
  };

  const latencies = (told) => {
    const cell = (row, figure) => {
      const reason = (row.reasons || {})[figure];
      const text = row[figure] !== null && row[figure] !== undefined ? number(row[figure], 4) : reason === "FAILED_TAIL" ? "∞" : NONE;
      return make("td", { title: reason ? WHY[reason] || reason : null }, text);
    };
    const lines = told.latency.map((row) => make("tr", { "data-row": row.name },
      make("th", { scope: "row" }, row.title), make("td", {}, whole(row.n)), ...QUANTILES.map((figure) => cell(row, figure))));
    const heads = ["ms", "n", ...QUANTILES].map((text) => make("th", { scope: "col" }, text));
    const note = told.state === "ended" ? "As in the run's summary." : "From the scheduled time, of the run so far, exact to 0.2 %.";
    fill(parts.table, make("table", {}, make("caption", {}, `Latency. ${note}`), make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...lines)));
  };

  const below = (told) => {
    const table = (heads, lines) => make("table", {}, make("thead", {}, make("tr", {}, ...heads.map((text) => make("th", { scope: "col" }, text)))),
      make("tbody", {}, ...lines.map((cells) => make("tr", {}, ...cells.map((text, at) => make(at ? "td" : "th", at ? {} : { scope: "row" }, text))))));
    const fine = new Set(["ok", "empty", "wrong_length", "budget_spent_hidden", "cancelled_planned"]);
    const kinds = Object.entries(told.counts.by_status).filter(([name]) => name !== "ok");
    parts.failures.whole.hidden = !kinds.length;
    fill(parts.failures.body, table(["how it ended", "requests", "counts as"],
      kinds.map(([name, count]) => [name.replaceAll("_", " "), whole(count), fine.has(name) ? "ended by itself" : "failed"])),
      told.counts.newest_error ? make("p", { class: "llm-muted llm-error" }, `Newest: ${told.counts.newest_error}`) : null);
    parts.workers.whole.hidden = told.workers.length < 2 && !told.workers.some((one) => one.lost);
    fill(parts.workers.body, table(["worker", "ended", "told up to", ""], told.workers.map((one) =>
      [String(one.rank + 1), whole(one.ended), one.until_s === null ? NONE : `${number(one.until_s)} s`, one.lost ? "lost" : ""])));
    parts.rows.whole.hidden = !told.report;
    const offered = ROWS.map(([file, title, kinds]) => [file, title, kinds.filter((kind) => (told.rows || []).includes(`${file}.${kind}`))]);
    fill(parts.rows.body, make("ul", {}, ...offered.filter(([, , kinds]) => kinds.length).map(([file, title, kinds]) => make("li", {}, `${title}: `,
      ...kinds.flatMap((kind, at) => [at ? ", " : "", make("a", { href: `${base}rows/${file}.${kind}`, download: "" }, kind === "parquet" ? "Parquet" : kind.toUpperCase())])))));
  };

  const loadPlotly = () => {
    plotly = plotly || new Promise((resolve, reject) => {
      const script = make("script", { src: `${base}plotly.js` });
      script.addEventListener("load", resolve);
      script.addEventListener("error", reject);
      document.head.append(script);
    });
    return plotly;
  };

  const draw = async () => {
    if (!panel || !latest || !latest.series) return;
    await loadPlotly();
    if (!panel || !panel.isConnected || !latest.series) return;
    window.tokenloadCharts.draw(parts.figures, latest.series, latest.time_s);
    document.documentElement.dataset.llmCharts = "drawn";
  };

  const render = () => {
    if (!panel || !latest) return;
    const dark = isDark(panel.parentElement || document.body);
    panel.dataset.theme = dark ? "dark" : "light";
    const idle = latest.state === "idle";
    parts.body.hidden = parts.head.hidden = idle;
    parts.empty.hidden = !idle;
    alarms(latest);
    if (idle) return fill(parts.empty, "No LLM run has begun. Its figures stand here from its first second on.");
    const key = JSON.stringify([latest, dark]);
    if (key === drawn && panel.dataset.filled) return undefined;
    [drawn, panel.dataset.filled] = [key, "yes"];
    parts.faint.hidden = latest.series.settled_s === null || latest.series.settled_s >= latest.time_s;
    head(latest); tiles(latest); latencies(latest); below(latest);
    draw().catch(() => { plotly = null; });
    return undefined;
  };

  const poll = async () => {
    try {
      const reply = await fetch(`${base}live.json`, { cache: "no-store" });
      if (reply.redirected || !reply.ok) throw new Error("no figures");
      latest = await reply.json();
      unreachable = false;
    } catch {
      unreachable = true;
    }
    if (latest) heading(latest);
    render();
  };

  // The tabs belong to React: our panel is put behind what it draws, and put back when it has redrawn.
  const chosen = () => new URLSearchParams(location.search).get("tab");
  const home = () => {
    const alone = document.getElementById("llm-alone");
    if (alone) return alone;
    const tabs = document.querySelector(".MuiTabs-root");
    return tabs ? tabs.closest(".MuiContainer-root") || tabs.parentElement.parentElement : null;
  };

  const report = (place) => {
    const ready = latest && latest.report;
    const key = ready ? `run-${latest.run}` : "none";
    let frame = document.getElementById("llm-report");
    if (frame && shownReport === key && frame.isConnected) return;
    if (frame) frame.remove();
    shownReport = key;
    frame = make("div", { id: "llm-report", class: "llm" });
    frame.dataset.theme = isDark(place) ? "dark" : "light";
    if (ready) {
      frame.append(
        make("p", { class: "llm-muted" }, make("a", { href: `${base}report`, target: "_blank", rel: "noopener" }, "Open the report in a tab of its own")),
        make("iframe", { src: `${base}report?run=${latest.run}`, title: "Report of the LLM run", sandbox: "allow-scripts allow-popups" }));
    } else {
      frame.append(make("p", { class: "llm-empty" }, latest && latest.state === "running"
        ? "The run goes on: its report is written when it ends." : "No run has ended yet: the report is written when one does."));
    }
    place.append(frame);
  };

  const mount = () => {
    const place = home(), tab = document.getElementById("llm-alone") ? "llm" : chosen();
    if (!place) return;
    if (tab === "llm") {
      if (!panel || !panel.isConnected || panel.parentElement !== place) {
        panel = panel || build();
        place.append(panel);
        render();
        if (window.Plotly) draw();
      }
    } else if (panel && panel.isConnected) {
      panel.remove();
    }
    if (tab === "llm-report") report(place);
    else document.getElementById("llm-report")?.remove();
  };

  const form = () => {
    for (const [name, text] of Object.entries(UNUSED)) {
      const field = document.querySelector(`form input[name="${name}"]`)?.closest(".MuiFormControl-root");
      if (!field || field.parentElement.querySelector(`[data-llm-note="${name}"]`)) continue;
      const note = make("p", { class: "llm-note", "data-llm-note": name }, text);
      note.style.setProperty("color", "inherit");
      field.after(note);
    }
    for (const alert of document.querySelectorAll("form .MuiAlert-root")) {
      if (alert.textContent.includes("no host attribute")) alert.style.display = "none";
    }
    for (const summary of document.querySelectorAll('form .MuiAccordionSummary-root')) {
      if (summary.dataset.llmOpened || !summary.textContent.includes("Custom parameters")) continue;
      summary.dataset.llmOpened = "yes";
      if (summary.getAttribute("aria-expanded") !== "true") summary.click();
    }
  };

  // Locust's page asks for its state only while it shows a test: one that drained stays at CLEANUP there, one that
  // never began at RUNNING, and one that took a while to begin at READY, with no way on.
  let stuckLooks = 0;
  const unstick = () => {
    const shows = (words) => [...document.querySelectorAll("header *")].some((one) => !one.children.length && words.test(one.textContent.trim()));
    const state = latest && latest.locust_state, rests = state === "ready" || state === "stopped";
    const drained = state === "stopped" && shows(/^(cleanup|stopping)$/i);
    const never = rests && latest.failure && shows(/^(running|spawning)$/i);
    const begun = (state === "running" || state === "spawning") && shows(/^(ready|stopped)$/i);
    stuckLooks = drained || never || begun ? stuckLooks + 1 : 0;
    if (stuckLooks > UNSTICK_AFTER_LOOKS) location.reload();
  };

  // Locust lists parameters by the alphabet: those that every run needs come first.
  const order = () => {
    for (const [at, name] of FIRST.entries()) {
      const camel = name.replace(/_(.)/g, (_, letter) => letter.toUpperCase());
      const field = document.querySelector(`form .MuiAccordionDetails-root [name="${name}"], form .MuiAccordionDetails-root [name="${camel}"]`);
      const list = field?.closest(".MuiAccordionDetails-root").firstElementChild;
      let entry = field;
      while (entry && entry.parentElement !== list) entry = entry.parentElement;
      if (entry) entry.style.order = String(at - FIRST.length);
    }
  };

  const look = () => { form(); order(); mount(); unstick(); };
  const start = () => {
    look();
    setInterval(look, LOOK_MS);
    new MutationObserver(mount).observe(document.body, { childList: true, subtree: true });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", render);
    poll();
    setInterval(() => { if (!document.hidden) poll(); }, POLL_MS);
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
