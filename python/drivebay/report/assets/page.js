// Draws the charts whose data stand in the page, and turns switches into views.
//
// Nothing is computed here: a view names the traces to show and the settings of the layout. Charts
// are drawn when they come near the window, so that the text can be read at once.
"use strict";
(() => {
  const { charts, themes } = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const touch = matchMedia("(pointer: coarse)").matches;
  const drawn = new Set();
  let printing = false;

  const boxes = new Map();
  for (const box of document.querySelectorAll("[data-chart]")) boxes.set(box.dataset.chart, box);

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

  // What the switches of a chart stand at, in the order of their slots.
  const positions = (id) => {
    const found = [];
    for (const field of document.querySelectorAll("fieldset[data-charts]")) {
      if (!field.dataset.charts.split(" ").includes(id)) continue;
      found[Number(field.dataset.slot)] = field.querySelector("input:checked").value;
    }
    return found;
  };

  const viewOf = (chart, at) => {
    const known = Object.keys(chart.views);
    if (!known.length) return null;
    // A switch with one choice is not shown: its part of the key is the first one there is.
    const parts = known[0].split("|").map((first, slot) => at[slot] || first);
    return chart.views[parts.join("|")] || chart.views[known[0]];
  };

  const build = (id) => {
    const chart = charts[id];
    const theme = themes[themeName()];
    const layout = painted(structuredClone(chart.layout), theme);
    const traces = chart.traces.map((trace) => painted(trace, theme));
    const view = viewOf(chart, positions(id));
    if (view) {
      for (const [path, value] of Object.entries(painted(view.layout, theme))) set(layout, path, value);
      if (view.show) view.show.forEach((shown, i) => { traces[i].visible = shown; });
    }
    layout.font = { family: getComputedStyle(document.body).fontFamily, size: 13, color: theme.ink };
    layout.paper_bgcolor = "rgba(0,0,0,0)";
    layout.plot_bgcolor = "rgba(0,0,0,0)";
    layout.height = chart.height;
    layout.width = Math.floor(boxes.get(id).clientWidth) || 640;
    layout.margin = { l: 52, r: layout.yaxis2 && layout.yaxis2.side === "right" ? 48 : 14, t: 30, b: 44, ...layout.margin };
    layout.hovermode = "closest";
    layout.dragmode = touch ? false : "zoom";
    layout.hoverlabel = { bgcolor: theme.surface, bordercolor: theme.rule, font: { color: theme.ink } };
    layout.showlegend = false;
    for (const key of Object.keys(layout)) {
      if (!/^[xy]axis\d*$/.test(key)) continue;
      layout[key] = {
        gridcolor: theme.grid, zerolinecolor: theme.rule, linecolor: theme.rule,
        tickfont: { color: theme.muted, size: 12 }, zeroline: true, fixedrange: touch,
        showline: key.startsWith("x"), ...layout[key],
      };
      const title = layout[key].title;
      if (title) title.font = { size: 12, color: theme.muted };
    }
    return { traces, layout };
  };

  const config = {
    displaylogo: false,
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d", "pan2d"],
    toImageButtonOptions: { format: "png", scale: 2 },
  };

  const draw = (id) => {
    const box = boxes.get(id);
    const { traces, layout } = build(id);
    if (!drawn.has(id)) box.replaceChildren();
    drawn.add(id);
    Plotly.react(box, traces, layout, { ...config, toImageButtonOptions: { ...config.toImageButtonOptions, filename: id } });
    box.dataset.drawn = themeName();
  };

  const redraw = () => drawn.forEach(draw);

  const near = new IntersectionObserver((seen) => {
    for (const one of seen) {
      if (!one.isIntersecting) continue;
      near.unobserve(one.target);
      draw(one.target.dataset.chart);
    }
  }, { rootMargin: "300px" });

  // Captions that belong to one position of a switch.
  const captions = (id) => {
    const at = positions(id);
    for (const part of boxes.get(id).closest("figure").querySelectorAll("[data-when]")) {
      part.hidden = !at.includes(part.dataset.when);
    }
  };

  for (const field of document.querySelectorAll("fieldset[data-charts]")) {
    field.addEventListener("change", () => {
      for (const id of field.dataset.charts.split(" ")) {
        captions(id);
        if (drawn.has(id)) draw(id);
      }
    });
  }

  const button = document.getElementById("theme");
  const nameButton = () => { button.textContent = themeName() === "dark" ? "Light" : "Dark"; };
  button.addEventListener("click", () => {
    root.dataset.theme = themeName() === "dark" ? "light" : "dark";
    try { localStorage.setItem("drivebay-theme", root.dataset.theme); } catch (e) { /* no storage */ }
    nameButton();
    redraw();
  });
  prefersDark.addEventListener("change", () => { nameButton(); redraw(); });

  let width = innerWidth;
  let waiting = 0;
  addEventListener("resize", () => {
    if (innerWidth === width || printing) return;
    width = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(redraw, 120);
  });

  // On paper every chart is drawn, in light colours, and everything folded is open.
  const folded = [];
  addEventListener("beforeprint", () => {
    printing = true;
    for (const one of document.querySelectorAll("details:not([open])")) { one.open = true; folded.push(one); }
    document.body.classList.add("printing");
    for (const id of boxes.keys()) draw(id);
  });
  addEventListener("afterprint", () => {
    printing = false;
    document.body.classList.remove("printing");
    for (const one of folded.splice(0)) one.open = false;
    redraw();
  });

  // The section that is being read, in the bar on top.
  const links = new Map();
  for (const link of document.querySelectorAll("nav a")) links.set(link.hash.slice(1), link);
  const reading = new IntersectionObserver((seen) => {
    for (const one of seen) {
      if (!one.isIntersecting) continue;
      for (const link of links.values()) link.removeAttribute("aria-current");
      const link = links.get(one.target.id);
      if (link) link.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-20% 0px -70% 0px" });
  for (const page of document.querySelectorAll(".page")) reading.observe(page);

  nameButton();
  for (const [id, box] of boxes) { captions(id); near.observe(box); }
})();
