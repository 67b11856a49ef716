// State of the page in its address: #PLACE&KEY=VALUE... PLACE is the id of a section or chart. A key
// is the name of a switch or list, or a setting of a chart: "zoom.CHART", "off.CHART". Only settings
// that differ from the initial page are stored.
"use strict";
const DrivebayAddress = (() => {
  const kept = new Map();
  let place = "";

  const read = () => {
    const parts = location.hash.slice(1).split("&");
    place = parts[0].includes("=") ? "" : parts.shift();
    kept.clear();
    for (const [key, value] of new URLSearchParams(parts.join("&"))) kept.set(key, value);
  };

  const get = (key) => (kept.has(key) ? kept.get(key) : null);

  const address = (at = place) => {
    const rest = new URLSearchParams([...kept]).toString().replaceAll("%2C", ",").replaceAll("%2F", "/");
    return `#${[at, rest].filter(Boolean).join("&")}`;
  };

  const placeOf = (link) => link.hash.slice(1).split("&")[0];

  // Links to charts and headings contain the current state, so that they can be copied.
  const links = () => {
    for (const link of document.querySelectorAll(".save a, .anchor-link")) link.href = address(placeOf(link));
  };

  const write = (how) => {
    const text = address();
    try {
      history[how](null, "", text === "#" ? location.pathname + location.search : text);
    } catch (e) { /* a page without an origin of its own, as in a mail, has no address to keep */ }
    links();
  };

  // null is the initial state.
  const keep = (key, value) => {
    if (get(key) === value) return;
    if (value === null) kept.delete(key);
    else kept.set(key, value);
    write("replaceState");
  };

  // --- places -------------------------------------------------------------------------------------

  // The target of a link keeps its position while charts above it are drawn, until the reader
  // scrolls or presses a key. A chart that does not exist yet is scrolled to once it does.
  let held = null;
  const release = () => { held = null; };
  const height = () => document.documentElement.scrollHeight;
  const settle = () => {
    const target = held.ids.map((id) => document.getElementById(id)).find(Boolean);
    if (!target) return;
    for (let one = target.closest("details:not([open])"); one; one = target.closest("details:not([open])")) one.open = true;
    if (held.target !== target) {
      target.setAttribute("tabindex", "-1");
      target.focus({ preventScroll: true });
    }
    target.scrollIntoView();
    Object.assign(held, { target, top: target.getBoundingClientRect().top, height: height() });
  };
  const goTo = (...ids) => {
    held = { ids: ids.filter(Boolean), target: null };
    settle();
  };
  for (const name of ["wheel", "touchmove", "keydown", "pointerdown"]) addEventListener(name, release, { capture: true, passive: true });
  addEventListener("scroll", () => {
    if (held && held.target && height() === held.height && Math.abs(held.target.getBoundingClientRect().top - held.top) > 2) release();
  });
  new ResizeObserver(() => { if (held) settle(); }).observe(document.querySelector("main"));

  // --- switches and lists -------------------------------------------------------------------------

  // Sets the switches of a part of the page from the address.
  const restore = (part) => {
    for (const field of part.querySelectorAll("fieldset.switch")) {
      const inputs = [...field.querySelectorAll("input")];
      const chosen = inputs.find(({ name, value }) => kept.get(name) === value) || inputs[0];
      chosen.checked = true;
    }
  };
  document.addEventListener("change", ({ target }) => {
    const field = target.closest("fieldset.switch");
    if (field) keep(target.name, target === field.querySelector("input") ? null : target.value);
  });

  // `apply` sets the page to the state in the address; `go` scrolls to a place.
  const start = (apply, go = goTo) => {
    read();
    addEventListener("hashchange", () => { read(); links(); apply(); go(place); });
    document.addEventListener("click", (event) => {
      const link = event.target.closest("a[href^='#']");
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      place = placeOf(link);
      write("pushState");
      go(place);
    });
    apply();
    links();
    go(place);
  };

  return { start, keep, restore, goTo, address, get };
})();
