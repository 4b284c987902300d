"use strict";
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const charts = JSON.parse(document.getElementById("chart-data").textContent);

  const unpack = async () => {
    const packed = atob(document.getElementById("plotly-packed").textContent);
    const bytes = Uint8Array.from(packed, (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
  };

  // Colours are written as var(--name), so that the style sheet decides, in light and in dark.
  const coloured = (value, style) => {
    if (typeof value === "string" && value.startsWith("var(")) {
      return style.getPropertyValue(value.slice(4, -1)).trim();
    }
    if (Array.isArray(value)) return value.map((item) => coloured(item, style));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, coloured(item, style)]));
  };

  const layout = (own) => {
    const axis = {
      gridcolor: "var(--line)", linecolor: "var(--muted)", tickcolor: "var(--muted)", zerolinecolor: "var(--line)",
      automargin: true, fixedrange: true,
    };
    const titled = (given) => ({ ...axis, ...given, title: { ...(given.title || {}), font: { size: 12 }, standoff: 8 } });
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", dragmode: false,
      font: { family: "system-ui, sans-serif", size: 11.5, color: "var(--text)" },
      margin: { l: 48, r: 8, t: 8, b: 40 }, hovermode: "closest",
      hoverlabel: { bgcolor: "var(--soft)", bordercolor: "var(--muted)", font: { color: "var(--text)" } },
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: 11 }, bgcolor: "rgba(0,0,0,0)" },
      ...own,
      ...Object.fromEntries(Object.entries(own).filter(([name]) => /^[xy]axis/.test(name)).map(([name, given]) => [name, titled(given)])),
    };
  };

  const draw = () => {
    const style = getComputedStyle(document.documentElement);
    const settings = { responsive: true, displaylogo: false, displayModeBar: false };
    for (const [id, chart] of Object.entries(charts)) {
      const place = document.getElementById("chart-" + id);
      window.Plotly.react(place, coloured(chart.data, style), coloured(layout(chart.layout), style), settings);
    }
  };

  for (const picture of document.querySelectorAll(".picture")) {
    const readout = picture.querySelector(".readout");
    const tell = (event) => {
      const title = event.target.closest("rect")?.querySelector("title");
      if (title) readout.textContent = title.textContent;
    };
    picture.addEventListener("pointerover", tell);
    picture.addEventListener("pointerdown", tell);
  }

  const start = async () => {
    await unpack();
    draw();
    dark.addEventListener("change", draw);
    document.documentElement.dataset.charts = "drawn";
  };
  start().catch(() => { for (const told of document.querySelectorAll(".chart-error")) told.hidden = false; });
})();
