// Draws the charts made by Python: applies a theme, selects a view, overlays several drives, and
// saves charts. Shared by the report of a review and by the Bench.
//
// No figure is computed here: a view names the traces to show and the settings of the layout;
// overlaying charts joins their traces and widens their axes.
"use strict";
const DrivebayCharts = ((themes) => {
  const { keep, get, restore, address } = DrivebayAddress;
  const { answer, zoomed } = DrivebayControls;
  const root = document.documentElement;
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const touch = matchMedia("(pointer: coarse)").matches;
  let printing = false;

  const themeName = () => {
    if (printing) return "light";
    return root.dataset.theme || (prefersDark.matches ? "dark" : "light");
  };

  // A copy with "@name" replaced by the theme's colour. Arrays of numbers are shared, not copied.
  const painted = (value, theme) => {
    if (typeof value === "string") return value[0] === "@" ? theme[value.slice(1)] || value : value;
    if (Array.isArray(value)) {
      const plain = value.length && typeof value[0] !== "object" && typeof value[0] !== "string";
      return plain ? value : value.map((one) => painted(one, theme));
    }
    if (value && typeof value === "object") {
      const copy = {};
      for (const key of Object.keys(value)) copy[key] = painted(value[key], theme);
      return copy;
    }
    return value;
  };

  const set = (object, path, value) => {
    const keys = path.split(".");
    const last = keys.pop();
    for (const key of keys) object = object[key] = object[key] || {};
    object[last] = value;
  };

  // A switch with one choice is not shown; its part of the key is the first one.
  const viewOf = (chart, at) => {
    const known = Object.keys(chart.views);
    if (!known.length) return null;
    const parts = known[0].split("|").map((first, position) => at[position] || first);
    return chart.views[parts.join("|")] || chart.views[known[0]];
  };

  // Traces and layout for Plotly.
  const build = (chart, at, width, name = themeName()) => {
    const theme = themes[name];
    const layout = painted(structuredClone(chart.layout), theme);
    const traces = chart.traces.map((trace) => painted(trace, theme));
    const view = viewOf(chart, at);
    if (view) {
      for (const [path, value] of Object.entries(painted(view.layout, theme))) set(layout, path, value);
      if (view.show) view.show.forEach((shown, i) => { traces[i].visible = shown; });
    }
    layout.font = { family: getComputedStyle(document.body).fontFamily, size: 13, color: theme.ink };
    layout.paper_bgcolor = "rgba(0,0,0,0)";
    layout.plot_bgcolor = "rgba(0,0,0,0)";
    layout.height = chart.height;
    layout.width = Math.floor(width) || 640;
    layout.margin = { l: 52, r: layout.yaxis2 && layout.yaxis2.side === "right" ? 48 : 14, t: 30, b: 44, ...layout.margin };
    // Over time, one line through all panes shows every value of that second.
    const timed = Boolean(layout.xaxis && layout.xaxis.title && layout.xaxis.title.text === "seconds");
    layout.hovermode = timed ? "x unified" : "closest";
    if (timed) Object.assign(layout, { hoversubplots: "axis", hoverdistance: -1 });
    const cross = timed ? { showspikes: true, spikemode: "across", spikesnap: "hovered data", spikethickness: 1, spikedash: "dot", spikecolor: theme.muted } : {};
    layout.dragmode = touch ? false : "zoom";
    layout.hoverlabel = { bgcolor: theme.surface, bordercolor: theme.rule, font: { color: theme.ink } };
    layout.showlegend = false;
    for (const key of Object.keys(layout)) {
      if (!/^[xy]axis\d*$/.test(key)) continue;
      layout[key] = {
        gridcolor: theme.grid, zerolinecolor: theme.rule, linecolor: theme.rule,
        tickfont: { color: theme.muted, size: 12 }, zeroline: true, fixedrange: touch || key[0] === "y",
        showline: key.startsWith("x"), ...cross, ...layout[key],
      };
      const title = layout[key].title;
      if (title) title.font = { size: 12, color: theme.muted };
      if (timed && key[0] === "x") layout[key].unifiedhovertitle = { text: "%{x:,} s" };
    }
    return { traces, layout };
  };

  // Many points are drawn as one path of dots, round for the first drive and square for others (the
  // style sheet distinguishes them by the fill rule): one element each would double the drawing time.
  const MANY = 300;
  const dotted = (traces, layout) => traces.map((trace) => {
    const { mode, marker, visible, x, x0, dx, y, xaxis = "x", yaxis = "y" } = trace;
    if (mode !== "markers" || visible === false || y.length < MANY) return trace;
    if (x && typeof x[0] !== "number") return trace;
    const dots = y.flatMap((value, i) => {
      const place = `${x ? x[i] : x0 + i * dx},${value}`;
      return Number.isFinite(value) ? [`M${place}L${place}`] : [];
    });
    const line = { color: marker.color, width: marker.size };
    const path = { type: "path", path: dots.join(""), xref: xaxis, yref: yaxis, layer: "between", opacity: marker.opacity, line, fillrule: (marker.symbol || "circle") === "circle" ? "evenodd" : "nonzero" };
    layout.shapes = [...(layout.shapes || []), path];
    return { ...trace, mode: "none" };
  });

  const config = { displaylogo: false, displayModeBar: false };

  // Draws a chart into its box; `id` is its name in the address.
  const draw = (box, id, chart, at) => {
    const { traces, layout } = build(chart, at, box.clientWidth);
    box.dataset.of = id;
    box.again = () => draw(box, id, chart, at);
    const off = hidden(box);
    chart.traces.forEach((trace, i) => { if (off.has(colourOf(trace))) traces[i].visible = false; });
    const first = !box.dataset.drawn;
    const reset = first ? el("button", { type: "button", class: "reset" }, "Reset zoom") : box.closest("figure").querySelector(".reset");
    const axis = layout.xaxis;
    const shown = JSON.stringify([axis.range, axis.type]);
    // A view with another time span or scale is shown without zoom.
    if (!first && box.shown !== shown) keep(`zoom.${id}`, null);
    box.shown = shown;
    box.whole = axis.type === "category" ? null : axis.range || extent(traces);
    const ends = zoomed(box, axis, box.whole);
    if (ends || axis.range) axis.range = [...(ends || axis.range)]; // Plotly modifies it
    reset.hidden = !ends;
    if (first) box.replaceChildren();
    Plotly.react(box, dotted(traces, layout), layout, config);
    if (first) {
      box.closest("figure").querySelector(".head").append(reset);
      answer(box, reset);
    }
    box.dataset.drawn = themeName();
  };

  const extent = (traces) => {
    const ends = traces.flatMap(({ x, x0, dx, y }) => (x ? [...x] : [x0, x0 + dx * (y.length - 1)])).filter(Number.isFinite);
    return ends.length ? [Math.min(...ends), Math.max(...ends)] : null;
  };

  const colourOf = ({ line, marker, fillcolor }) => (line && line.color) || (marker && marker.color) || fillcolor;

  // Legend entries toggle the series of their colour.
  const entries = (box) => [...box.closest("figure").querySelectorAll(".legend button")];
  const idOf = (box) => box.dataset.of || box.dataset.chart;
  const hidden = (box) => {
    const places = (get(`off.${idOf(box)}`) || "").split(",");
    const off = entries(box).filter((button, place) => places.includes(String(place)));
    for (const button of entries(box)) button.setAttribute("aria-pressed", String(!off.includes(button)));
    return new Set(off.map((button) => button.dataset.colour));
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest(".legend button");
    const box = button && button.closest("figure").querySelector(".plot");
    if (!box) return;
    const places = entries(box).flatMap((one, place) => ((one.getAttribute("aria-pressed") === "false") !== (one === button) ? [place] : []));
    keep(`off.${idOf(box)}`, places.length ? places.join(",") : null);
    if (box.again) box.again();
    else hidden(box);
  });

  // --- several drives in one chart ----------------------------------------------------------------

  const widest = (a, b) => [Math.min(a[0], b[0]), Math.max(a[1], b[1])];

  const named = (value, drive) => {
    if (value === "@self") return drive.colour;
    if (typeof value === "string") return value.replaceAll("@name", drive.name);
    if (Array.isArray(value)) {
      return value.length && typeof value[0] === "number" ? value : value.map((one) => named(one, drive));
    }
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, named(one, drive)]));
    }
    return value;
  };

  // Appearance of the drives in a chart, by position; distinguishable without colours.
  const COLOURS = ["@c1", "@c2", "@c3", "@c4", "@c5", "@c6"];
  const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
  const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "cross", "x"];
  const PATTERNS = ["plain", "rising", "dots", "falling", "level", "grid"];
  const looks = (place) => {
    const turn = (place + Math.floor(place / COLOURS.length)) % COLOURS.length;
    return { colour: COLOURS[place % COLOURS.length], dash: DASHES[turn], symbol: SYMBOLS[turn], pattern: PATTERNS[turn] };
  };
  const sample = ({ colour, dash, symbol, pattern }) => [
    el("i", { class: `line ${dash} ${symbol}`, style: `color:${cssColour(colour)}`, "aria-hidden": "true" }),
    el("i", { class: `tile ${pattern}`, style: `background-color:${cssColour(colour)}`, "aria-hidden": "true" }),
  ];

  // Overlays the charts of several drives, each with its name and `looks`.
  const merge = (parts) => {
    const charts = parts.map(({ chart, drive }) => ({ ...chart, traces: chart.traces.map((trace) => {
      const own = named(trace, drive);
      if (own.line && own.line.width && !own.line.dash) own.line = { ...own.line, dash: drive.dash };
      if (own.marker && own.marker.size && !own.marker.symbol) own.marker = { ...own.marker, symbol: drive.symbol };
      if (trace.type === "bar" && trace.marker.color === "@self") {
        const pattern = { path: themes.patterns[drive.pattern], size: 8, fillmode: "overlay", fgcolor: "#000", fgopacity: 0.35 };
        own.marker = { ...own.marker, pattern: drive.pattern === "plain" ? {} : pattern };
      }
      return own;
    }) }));
    const all = {
      traces: charts.flatMap((chart) => chart.traces),
      layout: structuredClone(charts.reduce((a, b) => (Object.keys(b.layout).length > Object.keys(a.layout).length ? b : a)).layout),
      height: Math.max(...charts.map((chart) => chart.height)),
      views: {},
    };
    for (const { layout } of charts) {
      for (const [key, axis] of Object.entries(layout)) {
        // Charts of older results may lack the range: then the axis fits the data.
        if (/axis/.test(key) && all.layout[key] && all.layout[key].range) {
          if (axis.range) all.layout[key].range = widest(all.layout[key].range, axis.range);
          else delete all.layout[key].range;
        }
        if (/axis/.test(key) && axis.tickvals && axis.type === "log" && all.layout[key].ticktext) {
          const ticks = [...new Set([...all.layout[key].tickvals, ...axis.tickvals])].sort((a, b) => a - b);
          Object.assign(all.layout[key], { tickvals: ticks, ticktext: ticks.map(String) });
        }
      }
    }
    if (all.traces.some((trace) => trace.orientation === "h")) {
      // Rows of the same load are adjacent.
      const lists = charts.map((chart) => (chart.traces[0] ? chart.traces[0].y : []));
      const order = [];
      for (let row = 0; row < Math.max(...lists.map((list) => list.length)); row += 1) {
        for (const list of lists) if (row < list.length) order.push(list[row]);
      }
      Object.assign(all.layout.yaxis, { categoryorder: "array", categoryarray: order });
      const lines = Math.max(1, ...order.map((name) => name.split("<br>").length));
      all.height = 90 + Math.max(34, 12 + 17 * lines) * order.length;
    }
    const keys = [...new Set(charts.flatMap((chart) => Object.keys(chart.views)))];
    for (const key of keys) {
      const view = { layout: {}, show: [] };
      for (const chart of charts) {
        const own = chart.views[key];
        view.show.push(...chart.traces.map((_, i) => Boolean(own) && (!own.show || own.show[i])));
        for (const [path, value] of Object.entries(own ? own.layout : {})) {
          if (path === "shapes") continue;
          view.layout[path] = path.endsWith(".range") && view.layout[path] ? widest(view.layout[path], value) : value;
        }
      }
      all.views[key] = view;
    }
    return all;
  };

  // --- saving -------------------------------------------------------------------------------------

  const save = (name, content, type) => {
    const link = document.createElement("a");
    link.download = name;
    link.href = content.startsWith("data:") ? content : URL.createObjectURL(new Blob([content], { type }));
    link.click();
    if (link.href.startsWith("blob:")) setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };

  const field = (value) => {
    let text = value === null || value === undefined ? "" : String(value);
    if (typeof value === "string") {
      const node = document.createElement("textarea");
      node.innerHTML = text.replaceAll("<br>", " ");
      text = node.value;
      if (/^[=+@\t\r-]/.test(text)) text = `'${text}`; // a spreadsheet must not interpret a name as a formula
    }
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };

  const lines = (rows) => rows.map((row) => row.map(field).join(",")).join("\r\n") + "\r\n";

  // Interval of each point of a trace: from its whiskers, or from the band of the same name.
  const intervals = (chart, trace) => {
    const { error_y: bars } = trace;
    if (bars && bars.symmetric === false) return (i) => [trace.y[i] - bars.arrayminus[i], trace.y[i] + bars.array[i]];
    const band = chart.traces.find(({ name, fill }) => fill === "toself" && name === trace.name);
    if (!band) return () => [null, null];
    const half = band.y.length / 2;
    const ends = new Map(band.x.slice(0, half).map((x, i) => [x, [band.y[2 * half - 1 - i], band.y[i]]]));
    return (i) => ends.get(trace.x[i]) || [null, null];
  };

  const csv = (chart) => {
    const unit = (chart.layout.annotations || []).map((one) => one.text)[0] || "value";
    const over = (chart.layout.xaxis && chart.layout.xaxis.title || {}).text || "x";
    const flat = chart.traces.some((trace) => trace.orientation === "h");
    const rows = [["series", "unit", flat ? "load" : over, "value", "spread", "low", "high"]];
    for (const trace of chart.traces.filter(({ showlegend }) => showlegend !== false)) {
      const place = flat ? trace.y : trace.x;
      const interval = flat || !place ? () => [null, null] : intervals(chart, trace);
      (flat ? trace.x : trace.y || []).forEach((value, i) => {
        const at = place ? place[i] : trace.x0 + i * trace.dx;
        const spread = trace.error_y && trace.error_y.symmetric !== false && trace.error_y.array ? trace.error_y.array[i] : null;
        rows.push([trace.name || "", trace.meta || unit, at, value, spread, ...interval(i)]);
      });
    }
    return lines(rows);
  };

  const barsCsv = (table) => {
    const keys = ["value", "spread", "low", "high", "published"];
    const rows = [["figure", "unit", "name", ...keys]];
    for (const row of table.querySelectorAll("tbody tr")) {
      const name = row.querySelector("th").cloneNode(true);
      for (const mark of name.querySelectorAll(".place, .chip")) mark.remove();
      rows.push([table.dataset.title, table.dataset.unit, name.textContent.trim(),
        ...keys.map((key) => (key in row.dataset ? Number(row.dataset[key]) : null))]);
    }
    return lines(rows);
  };

  // Picture for a slide or a document: light theme, white background, with its title.
  const picture = async (chart, at, title, format) => {
    const { traces, layout } = build(chart, at, 960, "light");
    const plain = document.createElement("span");
    plain.textContent = title;
    layout.title = { text: plain.innerHTML, x: 0.01, xanchor: "left", y: 0.98, yanchor: "top", font: { size: 16 } };
    layout.margin.t += 34;
    layout.height += 34;
    layout.paper_bgcolor = layout.plot_bgcolor = "#ffffff";
    const named = traces.filter((trace) => trace.name && trace.visible !== false && (trace.x || trace.y).length);
    layout.showlegend = new Set(named.map((trace) => trace.name)).size > 1;
    layout.legend = { orientation: "h", y: -0.16 };
    return Plotly.toImage({ data: traces, layout, config }, { format, width: layout.width, height: layout.height + 40, scale: format === "png" ? 2 : 1 });
  };

  // Redraws when the theme, the system's colours or the window's width change, and for printing,
  // where charts are light; `before` and `after` prepare the page for printing.
  const follow = (redraw, before = redraw, after = () => {}) => {
    const button = document.getElementById("theme");
    const changed = () => { button.textContent = themeName() === "dark" ? "Light" : "Dark"; redraw(); };
    button.addEventListener("click", () => {
      root.dataset.theme = themeName() === "dark" ? "light" : "dark";
      try { localStorage.setItem("drivebay-theme", root.dataset.theme); } catch (e) { /* no storage */ }
      changed();
    });
    prefersDark.addEventListener("change", changed);
    const nav = document.querySelector("nav");
    const menu = document.getElementById("menu");
    const open = (on) => { nav.classList.toggle("open", on); menu.setAttribute("aria-expanded", String(on)); };
    menu.addEventListener("click", () => open(!nav.classList.contains("open")));
    nav.addEventListener("click", (event) => { if (event.target.closest("a")) open(false); });
    nav.addEventListener("keydown", (event) => { if (event.key === "Escape") { open(false); menu.focus(); } });
    let width = innerWidth;
    let later = 0;
    addEventListener("resize", () => {
      if (innerWidth === width || printing) return;
      width = innerWidth;
      clearTimeout(later);
      later = setTimeout(redraw, 120);
    });
    const paper = (on) => {
      printing = on;
      document.body.classList.toggle("printing", on);
      if (on) before();
      else { after(); redraw(); }
    };
    addEventListener("beforeprint", () => paper(true));
    addEventListener("afterprint", () => paper(false));
    changed();
  };

  // --- figures of one drive or of several ---------------------------------------------------------

  const el = (tag, attributes = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value === true) node.setAttribute(name, "");
      else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
    }
    node.append(...children.flat().filter((child) => child !== null && child !== undefined));
    return node;
  };

  const cssColour = (name) => `var(--${name.slice(1)})`;

  const switchOf = (id, name, label, options) => el("fieldset", { class: "switch" }, el("legend", {}, label),
    options.flatMap(([value, words], place) => {
      const own = `${id}-${name}-${place}`;
      return [el("input", { type: "radio", name: `${id}-${name}`, id: own, value, checked: place === 0 }), el("label", { for: own }, words)];
    }));

  const merged = (panels) => merge(panels.map(({ panel, drive }) => ({ chart: panel.chart, drive })));

  // Charts side by side share the axes that they would have when overlaid.
  const beside = (panels, all) => {
    const [chart, whole] = [merged(panels), merged(all)];
    chart.layout.xaxis = whole.layout.xaxis;
    for (const key of Object.keys(chart.views)) chart.views[key].layout = whole.views[key].layout;
    return chart;
  };

  // Figures of one panel for several drives, [{ panel, name, drive }], each with `paint`: one figure
  // with the drives overlaid, or one per drive if they are to stand side by side.
  const figures = (key, title, panels) => {
    if (!panels[0].panel.apart || panels.length === 1) return [figureOf(key, title, panels, merged(panels), "")];
    return panels.map((one, place) => figureOf(key, title, [one], beside([one], panels), place + 1));
  };

  const figureOf = (key, title, panels, chart, place) => {
    const first = { ...panels[0].panel, wide: panels[0].panel.wide && !place };
    if (place) first.title += `: ${panels[0].name}`;
    const id = `${key}${first.id}${place}`.replaceAll(".", "-");
    const switches = first.switches.map(([name, label, options]) => {
      const every = new Map();
      for (const { panel } of panels) for (const [, , own] of panel.switches.filter(([other]) => other === name)) for (const [value, words] of own) every.set(value, words);
      return switchOf(id, name, label, every.size ? [...every] : options);
    });
    const box = el("div", { class: "plot", role: "img", "aria-label": `${first.title}: ${panels.map(({ name }) => name).join(", ")}` });
    const stageKey = first.key.filter(([, colour]) => colour !== "@self");
    const samples = panels.map(({ panel, name }) => (panels.length > 1 ? `${name}: ${panel.samples}` : panel.samples)).join("; ");
    const buttons = ["csv", "png", "svg"].map((form) => el("button", { type: "button", "aria-label": `Save as ${form.toUpperCase()}: ${first.title}`,
      onclick: async () => {
        if (form === "csv") save(`${id}.csv`, csv(chart), "text/csv");
        else save(`${id}.${form}`, await picture(chart, at(), `${title}: ${first.title}`, form));
      } }, form.toUpperCase()));
    const figure = el("figure", { class: first.wide ? "chart wide" : "chart", id: `chart-${id}`, "data-panel": id },
      el("div", { class: "head" }, el("h4", {}, first.title), el("div", {}, switches)), box,
      stageKey.length > 1 ? el("ul", { class: "legend" }, stageKey.map(([name, colour, shape, meaning]) =>
        el("li", {}, el("button", { type: "button", "aria-pressed": "true", "data-colour": colour, title: meaning || null },
          el("i", { class: shape || null, "aria-hidden": "true", style: `${shape && !shape.startsWith("tile") ? "color" : "background-color"}:${colour[0] === "@" ? cssColour(colour) : colour}` }), name)))) : null,
      el("figcaption", {}, [first.lead, `${samples}.`].filter(Boolean).map((words) => el("span", {}, words)),
        first.notes.map(([words, when]) => el("span", when ? { "data-when": when } : {}, words))),
      el("p", { class: "save" }, buttons, el("a", { href: address(`chart-${id}`), "aria-label": `Link to ${first.title}` }, "Link")));
    restore(figure);
    const at = () => [...figure.querySelectorAll("fieldset")].map((field) => field.querySelector("input:checked").value);
    figure.paint = () => {
      for (const note of figure.querySelectorAll("[data-when]")) note.hidden = !at().includes(note.dataset.when);
      const before = box.style.height;
      box.style.height = `${chart.height}px`;
      if (before || box.clientWidth) draw(box, id, chart, at());
    };
    figure.addEventListener("change", () => figure.paint());
    return figure;
  };

  // Decompresses gzip in base64.
  const unsqueezed = (text) => {
    const signs = atob(text);
    const bytes = new Uint8Array(signs.length);
    for (let i = 0; i < signs.length; i += 1) bytes[i] = signs.charCodeAt(i); // Uint8Array.from takes ten times as long
    // A Blob would pass through the browser process, at two thirds of the speed.
    const { readable, writable } = new DecompressionStream("gzip");
    const writer = writable.getWriter();
    writer.write(bytes);
    writer.close();
    return new Response(readable).text();
  };

  return { draw, csv, barsCsv, picture, save, follow, el, cssColour, figures, looks, sample, unsqueezed };
})(DRIVEBAY_THEMES);
