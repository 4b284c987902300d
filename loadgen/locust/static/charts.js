"use strict";
// The charts of the LLM tab: what each shows, and how Plotly is asked to draw it. Colours are variables of the style.
window.tokenloadCharts = (() => {
  const SLOTS = [
    ["prefilling", "prefilling"], ["decoding", "decoding"], ["finished", "finished (wasted)"],
    ["stalled", "stalled"], ["empty_queued", "empty, queued"], ["idle", "idle"],
  ];

  const line = (name, x, y, colour, more = {}) => ({
    type: "scatter", mode: x.length > 1 ? "lines" : "markers", name, x, y, connectgaps: false,
    line: { color: `var(${colour})`, width: 1.8, ...more }, marker: { color: `var(${colour})`, size: 6 },
    hovertemplate: `%{y:.4~g} ${name}<extra></extra>`,
  });

  const band = (key, name, x, y) => ({
    type: "scatter", mode: "lines", stackgroup: "slots", name, x, y, line: { width: 0 },
    fillcolor: `var(--llm-${key.replace("_", "-")})`, hovertemplate: `%{y:.1%} ${name}<extra></extra>`,
  });

  // What is told when a request ends is not all there yet for the newest moments: those are drawn faint.
  const fading = (traces, until_s) => traces.flatMap((trace) => {
    const edge = trace.x.findIndex((at) => until_s !== null && at >= until_s);
    if (edge < 0) return [trace];
    const part = (from, to) => ({ ...trace, x: trace.x.slice(from, to), y: trace.y.slice(from, to), legendgroup: trace.name });
    return [part(0, edge), { ...part(Math.max(edge - 1, 0)), opacity: 0.35, showlegend: edge === 0, hoverinfo: "skip", hovertemplate: null }];
  });

  const pair = (curve, low, high) => (series) => fading([
    line(low, series[curve].t_s, series[curve][low], "--llm-a"),
    line(high, series[curve].t_s, series[curve][high], "--llm-b", { dash: "dot" }),
  ], series.settled_s);

  const has = (values) => (values || []).some((value) => value !== null);

  const CHARTS = [
    { id: "ttft", title: "TTFT", unit: "ms", of: pair("ttft_ms", "p50", "p95") },
    { id: "itl", title: "ITL, every gap", unit: "ms", of: pair("itl_ms", "p50", "p99") },
    { id: "tokens", title: "Output tokens", unit: "tokens/s",
      of: (s) => fading([line("tokens/s", s.t_s, s.output_tokens_per_s, "--llm-a")], s.streamed ? s.settled_s : null) },
    { id: "rates", title: "Arrivals and completions", unit: "requests/s",
      of: (s) => [
        line("arrivals", s.t_s, s.arrivals_rps, "--llm-c"),
        line("completions", s.t_s, s.completions_rps, "--llm-a"),
        ...(s.failures_rps.some((value) => value > 0) ? [line("failures", s.t_s, s.failures_rps, "--llm-bad")] : []),
      ] },
    { id: "flight", title: "In flight", unit: "requests",
      of: (s) => [
        line("in flight", s.t_s, s.in_flight, "--llm-a"),
        ...(has(s.queue) ? [line("waiting for a slot", s.t_s, s.queue, "--llm-b", { dash: "dot" })] : []),
      ] },
    { id: "slots", title: "Where the slots' time goes", unit: "share", range: [0, 1], skip: (s) => !s.slots,
      of: (s) => SLOTS.map(([key, name]) => band(key, name, s.t_s, s.slots[key])) },
    { id: "lateness", title: "Lateness of sends", unit: "ms", of: pair("lateness_ms", "p50", "p99") },
  ];

  const coloured = (value, style) => {
    if (typeof value === "string" && value.startsWith("var(")) return style.getPropertyValue(value.slice(4, -1)).trim();
    if (Array.isArray(value)) return value.map((item) => coloured(item, style));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, coloured(item, style)]));
  };

  const layout = (chart, time_s) => {
    const axis = { gridcolor: "var(--llm-line)", linecolor: "var(--llm-muted)", zerolinecolor: "var(--llm-line)",
      automargin: true, fixedrange: true };
    const titled = (text) => ({ text, font: { size: 11 }, standoff: 6 });
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", dragmode: false, hovermode: "x unified",
      font: { family: "system-ui, sans-serif", size: 11, color: "var(--llm-text)" },
      margin: { l: 44, r: 8, t: 6, b: 34 }, showlegend: true,
      hoverlabel: { bgcolor: "var(--llm-soft)", bordercolor: "var(--llm-line)", font: { color: "var(--llm-text)" } },
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: 10.5 }, bgcolor: "rgba(0,0,0,0)" },
      xaxis: { ...axis, title: titled("time, s"), range: [0, Math.max(time_s, 10)] },
      yaxis: { ...axis, title: titled(chart.unit), rangemode: "tozero", ...(chart.range ? { range: chart.range } : {}) },
    };
  };

  const draw = (places, series, time_s) => {
    for (const chart of CHARTS) {
      const figure = places[chart.id];
      const missing = chart.skip && chart.skip(series);
      figure.hidden = Boolean(missing);
      if (missing) continue;
      const plot = figure.querySelector(".llm-plot");
      const style = getComputedStyle(plot);
      const settings = { responsive: true, displaylogo: false, displayModeBar: false };
      window.Plotly.react(plot, coloured(chart.of(series), style), coloured(layout(chart, time_s), style), settings);
    }
  };

  return { CHARTS, draw };
})();
