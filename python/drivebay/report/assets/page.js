// The report of one review: draws the charts whose data stand in the page, turns switches into
// views. Charts are drawn when they come near the window, so that the text can be read at once.
"use strict";
(() => {
  const { start, keep, restore, get } = DrivebayAddress;
  const { draw, csv, barsCsv, picture, save, follow, el, figures, looks, sample } = DrivebayCharts;
  const drawn = new Set();

  // Large parts stand in the page compressed, and are unpacked when they are first needed.
  const unpacked = new Map();
  const unpack = (id) => {
    if (!unpacked.has(id)) {
      const signs = atob(document.getElementById(id).textContent);
      const bytes = new Uint8Array(signs.length);
      for (let i = 0; i < signs.length; i += 1) bytes[i] = signs.charCodeAt(i); // Uint8Array.from takes ten times as long
      unpacked.set(id, new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text());
    }
    return unpacked.get(id);
  };

  // What is unpacked on a click stands after this script.
  const whole = new Promise((go) => (document.readyState === "loading" ? document.addEventListener("DOMContentLoaded", go) : go()));

  // The library, once a chart is near or the browser has nothing else to do; until then the page
  // shows the still pictures. A chart's data is unpacked when it is drawn.
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

  // The switches of each chart, in the order of their positions, and what they stand at.
  const switches = new Map();
  for (const field of document.querySelectorAll("fieldset[data-charts]")) {
    for (const id of field.dataset.charts.split(" ")) {
      if (!switches.has(id)) switches.set(id, []);
      switches.get(id)[Number(field.dataset.position)] = field;
    }
  }
  const positions = (id) => (switches.get(id) || []).map((field) => field.querySelector("input:checked").value);

  const show = (id) => {
    drawn.add(id);
    draw(boxes.get(id), id, charts.get(id), positions(id));
  };
  const laid = new Set(); // figures with another drive
  const redraw = () => {
    drawn.forEach(show);
    for (const figure of laid) if (figure.isConnected) figure.paint();
  };

  // One after the other, so that each is seen, and the page answers, before the next is begun.
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
        if (drawn.has(id)) show(id);
      }
    });
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-save]");
    if (!button) return;
    const form = button.dataset.save;
    if (form === "bars") {
      const fold = button.closest(".bars-box").querySelector("[data-rows]");
      if (fold && !fold.few) await unfold(fold);
      const table = button.closest(".bars-box").querySelector("table");
      save(`${table.dataset.title}.csv`, barsCsv(table), "text/csv");
      return;
    }
    const id = button.dataset.of;
    const chart = await ready(id);
    const title = `${button.closest("figure").querySelector("h4").textContent}: ${document.body.dataset.who}`;
    if (form === "csv") save(`${id}.csv`, csv(chart), "text/csv");
    else save(`${id}.${form}`, await picture(chart, positions(id), title, form));
  });

  // Bars of all drives, or again of the few that are shown first.
  const unfold = async (button) => {
    const body = button.closest(".bars-box").querySelector("tbody");
    if (button.few) {
      body.replaceChildren(...button.few);
      delete button.few;
      button.textContent = button.said;
      return;
    }
    await whole;
    const all = JSON.parse(await unpack("bars"));
    [button.few, button.said] = [[...body.children], button.textContent];
    body.innerHTML = all[Number(button.dataset.rows)];
    button.textContent = "Show fewer";
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-rows]");
    if (button) unfold(button);
  });

  // One more drive beside the one under review.
  const layBeside = async (box, key) => {
    const place = box.querySelector(".laid");
    for (const figure of laid) if (place.contains(figure)) laid.delete(figure);
    place.replaceChildren();
    if (!key) return;
    await Promise.all([begin(), whole]);
    const { names, tests } = JSON.parse(await unpack("others"));
    if (box.querySelector("select").value !== key) return; // another choice was made meanwhile
    const shown = ["", key];
    const parts = shown.map((name) => tests[box.dataset.test][name]);
    place.append(el("ul", { class: "legend" }, shown.map((name, i) =>
      el("li", {}, sample(looks(i)), names[name]))));
    for (const { id } of parts[0]) {
      const panels = shown.map((name, i) => ({ panel: parts[i].find((one) => one.id === id), name: names[name], drive: { name: names[name], ...looks(i) } }));
      if (!panels.every(({ panel }) => panel)) continue;
      for (const figure of figures(`beside-${box.dataset.test}`, box.dataset.title, panels)) {
        place.append(figure);
        laid.add(figure);
        figure.paint();
      }
    }
    box.dataset.laid = key;
  };
  for (const box of document.querySelectorAll(".beside")) {
    const choice = box.querySelector("select");
    choice.addEventListener("change", () => {
      keep(choice.id, choice.value || null);
      layBeside(box, choice.value);
    });
  }

  // Puts the page in the state of its address.
  const apply = () => {
    restore(document);
    for (const box of document.querySelectorAll(".beside")) {
      const choice = box.querySelector("select");
      const [before, asked] = [choice.value, get(choice.id) || ""];
      choice.value = [...choice.options].some(({ value }) => value === asked) ? asked : "";
      if (choice.value !== before) layBeside(box, choice.value);
    }
    boxes.forEach((_, id) => captions(id));
    redraw();
  };

  // On paper everything folded is open. Charts that were not looked at stay still pictures.
  const folded = [];
  follow(redraw, () => {
    for (const one of document.querySelectorAll("details:not([open])")) { one.open = true; folded.push(one); }
    redraw();
  }, () => { for (const one of folded.splice(0)) one.open = false; });

  // The section that is being read, in the bar on top.
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
