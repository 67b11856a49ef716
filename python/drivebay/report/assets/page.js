// Report of one review: draws the charts from the data in the page and applies switches. Charts are
// drawn when they come near the window, so that the text is readable immediately.
"use strict";
(() => {
  const { start, restore } = DrivebayAddress;
  const { draw, csv, barsCsv, picture, save, follow, el, unsqueezed } = DrivebayCharts;
  const drawn = new Set();

  // Large parts of the page are compressed, and unpacked when they are first needed.
  const unpacked = new Map();
  const unpack = (id) => {
    if (!unpacked.has(id)) unpacked.set(id, unsqueezed(document.getElementById(id).textContent));
    return unpacked.get(id);
  };

  // Parts that are unpacked on a click come after this script.
  const whole = new Promise((go) => (document.readyState === "loading" ? document.addEventListener("DOMContentLoaded", go) : go()));

  // Loads the library when a chart is near or the browser is idle; until then the page shows the
  // still pictures. Data of a chart are unpacked when it is drawn.
  const charts = new Map();
  let begun = null;
  const { library: file } = document.currentScript.dataset;
  const begin = () => {
    begun = begun || (async () => {
      const script = document.createElement("script");
      const loaded = new Promise((done, failed) => Object.assign(script, { onload: done, onerror: failed }));
      if (file) script.src = file;
      else script.textContent = await unpack("plotly");
      document.head.append(script);
      if (file) await loaded;
    })();
    return begun;
  };
  const ready = async (id) => {
    const [data] = await Promise.all([unpack(`data-${id}`), begin()]);
    if (!charts.has(id)) charts.set(id, JSON.parse(data));
    return charts.get(id);
  };

  const boxes = new Map();
  for (const box of document.querySelectorAll("[data-chart]")) boxes.set(box.dataset.chart, box);

  // Switches of each chart, in the order of their positions, and their values.
  const switches = new Map();
  for (const field of document.querySelectorAll("fieldset[data-chart-of]")) {
    const id = field.dataset.chartOf;
    if (!switches.has(id)) switches.set(id, []);
    switches.get(id)[Number(field.dataset.position)] = field;
  }
  const positions = (id) => (switches.get(id) || []).map((field) => field.querySelector("input:checked").value);

  const show = (id) => {
    drawn.add(id);
    draw(boxes.get(id), id, charts.get(id), positions(id));
  };
  const redraw = () => drawn.forEach(show);

  // One chart at a time, so that it becomes visible and the page stays responsive.
  let last = Promise.resolve();
  const near = new IntersectionObserver((seen) => {
    for (const one of seen) {
      if (!one.isIntersecting) continue;
      const id = one.target.dataset.chart;
      near.unobserve(one.target);
      const data = ready(id);
      last = last.then(() => data).then(() => show(id)).catch(reportError).then(() => new Promise((go) => setTimeout(go)));
    }
  }, { rootMargin: "300px" });

  // Shows the captions that belong to the current position of a switch.
  const captions = (id) => {
    const at = positions(id);
    for (const part of boxes.get(id).closest("figure").querySelectorAll("[data-when]")) {
      part.hidden = !at.includes(part.dataset.when);
    }
  };

  switches.forEach((fields, id) => fields.forEach((field) => field.addEventListener("change", () => {
    captions(id);
    if (drawn.has(id)) show(id);
  })));

  // Picture of bars, which the page contains as SVG.
  const barsPicture = async (id, form) => {
    const svg = JSON.parse(await unpack("pictures"))[id];
    if (form === "svg") return svg;
    const image = new Image();
    image.src = `data:image/svg+xml,${encodeURIComponent(svg)}`;
    await image.decode();
    const canvas = el("canvas", { width: 2 * image.width, height: 2 * image.height });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return canvas.toDataURL("image/png");
  };

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-save]");
    if (!button) return;
    const form = button.dataset.save;
    if (form === "bars") {
      const table = button.closest(".bars-box").querySelector("table");
      save(`${table.dataset.title}.csv`, barsCsv(table), "text/csv");
      return;
    }
    const { of: id, picture: bars } = button.dataset;
    if (bars) {
      await whole;
      save(`${bars}.${form}`, await barsPicture(bars, form), form === "svg" ? "image/svg+xml" : "image/png");
      return;
    }
    const chart = await ready(id);
    const title = `${button.closest("figure").querySelector("h4").textContent}: ${document.body.dataset.who}`;
    if (form === "csv") save(`${id}.csv`, csv(chart), "text/csv");
    else save(`${id}.${form}`, await picture(chart, positions(id), title, form));
  });

  // Sets the page to the state in its address.
  const apply = () => {
    restore(document);
    boxes.forEach((_, id) => captions(id));
    redraw();
  };

  // For printing, all closed sections are opened, except the details, which are not printed. Charts that were not drawn stay still pictures.
  const folded = [];
  follow(redraw, () => {
    for (const one of document.querySelectorAll("details:not([open], #details, #details *)")) { one.open = true; folded.push(one); }
    redraw();
  }, () => { for (const one of folded.splice(0)) one.open = false; });

  // Marks the current section in the navigation.
  const links = new Map();
  for (const link of document.querySelectorAll("nav a[href^='#']")) links.set(link.hash.slice(1), link);
  const reading = new IntersectionObserver((seen) => {
    for (const one of seen) {
      if (!one.isIntersecting) continue;
      for (const link of links.values()) link.removeAttribute("aria-current");
      const link = links.get(one.target.id);
      if (link) link.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-20% 0px -70% 0px" });
  for (const page of document.querySelectorAll(".page")) reading.observe(page);

  if (window.requestIdleCallback && boxes.size) requestIdleCallback(begin, { timeout: 2000 });
  start(apply);
  for (const box of boxes.values()) near.observe(box);
})();
