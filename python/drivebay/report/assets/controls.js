// Horizontal zoom and reading of values with keys and fingers; Plotly provides both for the mouse.
"use strict";
const DrivebayControls = (() => {
  const { keep, get } = DrivebayAddress;
  const KEYS = "Arrow keys read values, plus and minus zoom, 0 shows all";
  const STEP = 0.6; // of the span, per press of plus
  const LEAST = 0.002; // of the whole axis, at maximum zoom
  const FAR = 10; // points, with Shift
  const FINGER = 40; // pixels to the nearest point
  const SPOKEN_MS = 120; // Plotly updates labels at most every 50 ms

  const keyOf = (box) => `zoom.${box.dataset.of}`;
  const log = (axis) => axis.type === "log";

  // Ends of the zoom in the axis' own numbers, or null; `whole` are the ends of the whole chart.
  const zoomed = (box, axis, whole) => {
    const ends = (get(keyOf(box)) || "").split(",").map(Number).map((end) => (log(axis) ? Math.log10(end) : end));
    if (ends.length !== 2 || !ends.every(Number.isFinite) || !whole) return null;
    const [low, high] = [Math.max(ends[0], whole[0]), Math.min(ends[1], whole[1])];
    return low < high ? [low, high] : null;
  };

  // Shows this part of the x axis; null or the full range resets the zoom.
  const zoom = (box, ends) => {
    const [first, last] = box.whole;
    if (ends) {
      const span = Math.min(last - first, Math.max(ends[1] - ends[0], LEAST * (last - first)));
      const low = Math.min(Math.max(ends[0], first), last - span);
      ends = span < 0.999 * (last - first) ? [low, low + span] : null;
    }
    const words = ends && ends.map((end) => Number((log(box._fullLayout.xaxis) ? 10 ** end : end).toPrecision(5))).join(",");
    keep(keyOf(box), words);
    box.again();
  };

  // --- reading ------------------------------------------------------------------------------------

  const unified = (box) => box._fullLayout.hovermode === "x unified";

  // Series with their visible points: [{ curve, points: [{ x, y, at }] }], in pixels of the window.
  const inSight = (box) => {
    const { xaxis } = box._fullLayout;
    const flat = xaxis.range[0] < xaxis.range[1];
    return box.calcdata.flatMap((points) => {
      const { trace } = points[0];
      if (trace.visible !== true || trace.hoverinfo === "skip") return [];
      const axis = box._fullLayout[`yaxis${(trace.yaxis || "y").slice(1)}`];
      const bar = trace.type === "bar";
      const seen = points.flatMap((one, at) => {
        const x = bar && trace.orientation === "h" ? one.s0 + one.s1 : bar ? one.p : one.x;
        const y = bar && trace.orientation === "h" ? one.p : bar ? one.s0 + one.s1 : one.y;
        if (!Number.isFinite(x) || !Number.isFinite(y)) return [];
        const place = { x: xaxis._offset + xaxis.c2p(bar && trace.orientation === "h" ? x / 2 : x), y: axis._offset + axis.c2p(y), value: x, at };
        return place.x >= xaxis._offset - 1 && place.x <= xaxis._offset + xaxis._length + 1 ? [place] : [];
      });
      return seen.length && flat ? [{ curve: trace.index, points: seen }] : [];
    });
  };

  const point = (box, curve, at) => {
    box.reading = { curve, at };
    Plotly.Fx.hover(box, [{ curveNumber: curve, pointNumber: at }]);
  };
  const second = (box, value) => {
    box.reading = { value };
    Plotly.Fx.hover(box, { xval: value }, "xy");
  };

  // Index after a step in a list; -1 stands for no index, before the first and after the last.
  const next = (count, from, by) => Math.min(count - 1, Math.max(0, (from < 0 && by < 0 ? count : from) + by));

  // One step of an arrow key: along the points, or with the other pair of keys between series.
  const step = (box, along, across) => {
    const series = inSight(box);
    if (!series.length) return;
    const now = box.reading;
    if (unified(box)) {
      const values = [...new Set(series.flatMap(({ points }) => points.map(({ value }) => value)))].sort((a, b) => a - b);
      second(box, values[next(values.length, now ? values.findIndex((value) => value >= now.value) : -1, along)]);
      return;
    }
    const row = Math.max(0, series.findIndex(({ curve }) => now && curve === now.curve));
    const { curve, points } = series[Math.min(series.length - 1, Math.max(0, row + across))];
    point(box, curve, points[next(points.length, points.findIndex(({ at }) => now && at === now.at), along)].at);
  };

  // Reads the value at a position of the chart, in pixels.
  const readAt = (box, x, y) => {
    const { xaxis } = box._fullLayout;
    if (unified(box)) {
      second(box, xaxis.p2c(Math.min(xaxis._length, Math.max(0, x - xaxis._offset))));
      return;
    }
    let best = { far: FINGER };
    for (const { curve, points } of inSight(box)) {
      for (const one of points) {
        const far = Math.hypot(one.x - x, one.y - y);
        if (far < best.far) best = { far, curve, at: one.at };
      }
    }
    if ("curve" in best) point(box, best.curve, best.at);
  };

  const leave = (box) => { box.reading = null; Plotly.Fx.unhover(box); };

  // --- keys ---------------------------------------------------------------------------------------

  const scale = (box, by) => {
    const { xaxis } = box._fullLayout;
    const [low, high] = xaxis.range;
    let centre = (low + high) / 2;
    const now = box.reading && box.reading.value;
    if (Number.isFinite(now)) {
      const at = log(xaxis) ? Math.log10(now) : now;
      if (at >= low && at <= high) centre = at;
    }
    zoom(box, [centre - (centre - low) * by, centre + (high - centre) * by]);
    if (Number.isFinite(now)) second(box, now);
  };

  const pressed = (box, event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const far = event.shiftKey ? FAR : 1;
    const flat = box.data.some((trace) => trace.orientation === "h");
    const along = flat ? { ArrowUp: -far, ArrowDown: far } : { ArrowLeft: -far, ArrowRight: far };
    const across = flat ? { ArrowLeft: -1, ArrowRight: 1 } : unified(box) ? {} : { ArrowUp: -1, ArrowDown: 1 };
    const zooms = box.whole ? { "+": () => scale(box, STEP), "=": () => scale(box, STEP), "-": () => scale(box, 1 / STEP), "0": () => zoom(box, null) } : {};
    if (event.key in along) step(box, along[event.key], 0);
    else if (event.key in across) step(box, 0, across[event.key]);
    else if (event.key === "Home") step(box, -Infinity, 0);
    else if (event.key === "End") step(box, Infinity, 0);
    else if (event.key in zooms) zooms[event.key]();
    else if (event.key === "Escape") leave(box);
    else return;
    event.preventDefault();
    setTimeout(() => say(box), SPOKEN_MS);
  };

  // Announces the tooltip to screen readers. Plotly has no event for labels made by `hover`.
  const say = (box) => {
    const words = [...box.querySelectorAll(".hoverlayer text")].map((text) => text.textContent).filter(Boolean);
    box.said.textContent = box.reading ? words.join("; ") : "";
  };

  // --- fingers ------------------------------------------------------------------------------------

  // One finger moves the crosshair, two fingers zoom; vertical movement scrolls the page.
  const fingers = (box) => {
    const down = new Map();
    let pinch = null;
    let waiting = 0;
    const x = (one) => one.x - box.getBoundingClientRect().left;
    const spread = () => {
      const [a, b] = [...down.values()].map(x).sort((p, q) => p - q);
      return [a, Math.max(b, a + 10)];
    };
    const moved = () => {
      waiting = 0;
      if (pinch && down.size === 2) {
        // The values under both fingers stay fixed.
        const [a, b] = spread();
        const [p, q] = pinch.values;
        const unit = (q - p) / (b - a);
        const low = p - (a - pinch.offset) * unit;
        zoom(box, [low, low + pinch.length * unit]);
      } else if (down.size === 1) {
        const [one] = down.values();
        readAt(box, x(one), one.y - box.getBoundingClientRect().top);
      }
    };
    box.addEventListener("touchstart", (event) => event.stopPropagation(), { capture: true, passive: true });
    box.addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "touch") return;
      down.set(event.pointerId, { x: event.clientX, y: event.clientY });
      const { xaxis } = box._fullLayout;
      pinch = null;
      if (down.size === 2 && box.whole) {
        pinch = { values: spread().map((at) => xaxis.p2l(at - xaxis._offset)), offset: xaxis._offset, length: xaxis._length };
      }
      waiting = waiting || requestAnimationFrame(moved);
    });
    box.addEventListener("pointermove", (event) => {
      if (!down.has(event.pointerId)) return;
      down.set(event.pointerId, { x: event.clientX, y: event.clientY });
      waiting = waiting || requestAnimationFrame(moved);
    });
    const up = (event) => { down.delete(event.pointerId); pinch = null; };
    addEventListener("pointerup", up);
    addEventListener("pointercancel", up);
  };

  // Makes a drawn chart interactive; `reset` is its button, visible while the chart is zoomed.
  const answer = (box, reset) => {
    box.tabIndex = 0;
    box.setAttribute("role", "application");
    box.setAttribute("aria-roledescription", "chart");
    box.setAttribute("aria-description", KEYS);
    box.said = document.createElement("p");
    box.said.className = "sr-only";
    box.said.setAttribute("role", "status");
    box.after(box.said);
    reset.addEventListener("click", () => zoom(box, null));
    box.addEventListener("keydown", (event) => pressed(box, event));
    box.addEventListener("blur", () => { if (box.reading) leave(box); });
    fingers(box);
    box.on("plotly_relayout", (change) => {
      if ("xaxis.range[0]" in change) zoom(box, [change["xaxis.range[0]"], change["xaxis.range[1]"]]);
      else if ("xaxis.autorange" in change || "xaxis.range" in change) zoom(box, null);
    });
  };

  return { answer, zoomed };
})();
