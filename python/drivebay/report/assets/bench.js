// The Bench: a list of reviews to select from, bars in rank order, and the selected drives overlaid
// in every chart. The address stores the selection, so that a link keeps it.
//
// Figures come unchanged from data/index.js; the series of a test are loaded when it comes into
// view. Only order and ranks are computed here.
"use strict";
const DrivebayBench = (() => {
  const { keep, get, goTo, start } = DrivebayAddress;
  const { el, cssColour, figures, follow, looks, sample, unsqueezed } = DrivebayCharts;
  const CHOSEN_MAX = 12;
  const SHOWN_FIRST = 16;
  const FIRST = 2;
  const FOLDED_ABOVE = 10;
  const LIBRARY = "assets/plotly.min.js";
  const RANKING = "_rank"; // key of the figures that rank all results, a test without charts
  const FILTERS = ["q", "kind", "size", "form"];

  let reviews = [];
  let tests = [];
  let five = [];
  const byKey = new Map();
  const lone = new Set(); // tests of one review, which are hidden unless it is selected
  const state = { drives: [], q: "", kind: "", size: "", form: "", sort: "", columns: "", bars: "" };
  const parts = new Map(); // "review/test" -> promise of its data
  const waiting = new Map(); // "review/test" -> resolve
  const live = new Set(); // figures

  // --- loading ------------------------------------------------------------------------------------

  const script = (src) => new Promise((done, failed) => {
    document.head.append(el("script", { src, onload: done, onerror: () => failed(new Error(src)) }));
  });
  let library = null;
  const plotly = () => { library = library || script(LIBRARY); return library; };

  const load = (review, test) => {
    const name = `${review}/${test}`;
    if (!parts.has(name)) {
      parts.set(name, new Promise((done, failed) => {
        waiting.set(name, done);
        script(`data/${review}/${test}.js`).catch(failed);
      }));
    }
    return parts.get(name);
  };

  const say = (words) => { document.getElementById("said").textContent = words; };
  const looksOf = (key) => looks(state.drives.indexOf(key));

  // --- the selection, in the address --------------------------------------------------------------

  const inOrder = (a, b) => a.shipped - b.shipped || a.group.localeCompare(b.group) || a.name.localeCompare(b.name, "en", { numeric: true });

  // Without a selection in the address, a Bench with shipped drives shows the reviews, or else the
  // first models of the list that are no stand-ins; a Bench without shipped drives shows none.
  const first = () => {
    if (!reviews.some((review) => review.shipped)) return [];
    const own = reviews.filter((review) => !review.shipped);
    const known = reviews.filter((review) => !review.stand_in).sort(inOrder);
    const models = known.filter(({ model }, at) => known.findIndex((one) => one.model === model) === at);
    return (own.length ? own : models).slice(0, FIRST).map((review) => review.key);
  };

  const read = () => {
    const asked = get("drives") === null ? first() : get("drives").split(",");
    state.drives = [...new Set(asked)].filter((key) => byKey.has(key)).slice(0, CHOSEN_MAX);
    for (const name of [...FILTERS, "sort"]) state[name] = get(name) || "";
    state.columns = get("columns") === "tests" ? "tests" : "";
    state.bars = ["all", "chosen"].includes(get("bars")) ? get("bars") : "";
  };

  const write = () => {
    keep("drives", state.drives.length || first().length ? state.drives.join(",") : null);
    for (const name of [...FILTERS, "sort", "columns"]) keep(name, state[name] || null);
    keep("bars", state.bars || null);
  };

  const choose = (drives) => {
    if (drives.length > CHOSEN_MAX) {
      say(`At most ${CHOSEN_MAX} drives can be compared at a time.`);
      drives = drives.slice(0, CHOSEN_MAX);
    } else {
      say(`${drives.length} selected`);
    }
    state.drives = drives;
    write();
    showList();
    showChosen();
    showResults();
  };

  // Two or more selected drives are shown alone, unless the reader asks for all.
  const onlyChosen = () => (state.bars ? state.bars === "chosen" : state.drives.length > 1);

  const toggle = (key) => choose(state.drives.includes(key) ? state.drives.filter((one) => one !== key) : [...state.drives, key]);

  // --- the list -----------------------------------------------------------------------------------

  const valueOf = (review, test, figure) => ((review.values[test] || {})[figure] || [])[0];

  const filtered = () => {
    const words = state.q.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (review) => ["kind", "size", "form"].every((name) => !state[name] || review[name] === state[name]);
    return reviews.filter((review) => fits(review) && words.every((word) => review.search.includes(word)));
  };

  const ranked = (list, test, figure, better) => {
    const known = list.filter((review) => typeof valueOf(review, test, figure) === "number");
    const sign = better === "lower" ? 1 : -1;
    return known.sort((a, b) => sign * (valueOf(a, test, figure) - valueOf(b, test, figure)));
  };

  const sortBy = () => {
    const [test, figure] = state.sort.split("/");
    const found = tests.find((one) => one.key === test);
    const bar = found && found.bars.find((one) => one.key === figure);
    return bar ? { test, bar, whole: found } : null;
  };

  // Class of a capacity: the nearest power of two; "" if the capacity is not known.
  const sizeOf = (bytes) => {
    const power = Math.round(Math.log2(bytes / 1e12));
    return !bytes ? "" : power < 0 ? `${1024 * 2 ** power} GB` : `${2 ** power} TB`;
  };

  const capacityOf = (bytes) => (!bytes ? "" : bytes < 1e12 ? `${(bytes / 1e9).toFixed(1)} GB` : `${(bytes / 1e12).toFixed(1)} TB`);

  // Figures that are columns of the list: the keys that rank all results, or those of the tests.
  const whole = (key, figure) => {
    const test = tests.find((one) => one.key === key);
    return { name: `${key}/${figure}`, test, bar: test.bars.find((one) => one.key === figure) };
  };
  const keys = () => tests.find(({ key }) => key === RANKING).bars.filter(({ key }) => reviews.some((review) => review.values[RANKING][key])).map(({ key }) => whole(RANKING, key));
  const columns = () => (keys().length && !state.columns ? keys() : five.map((pair) => whole(...pair)));

  const showChooser = () => {
    const box = document.getElementById("chooser");
    const set = (name) => (event) => { state[name] = event.target.value; write(); showList(); showResults(); };
    const list = (name, label, options) => el("div", {}, el("label", { for: name }, label),
      el("select", { id: name, onchange: set(name) }, options.map(([value, words]) => el("option", { value }, words))));
    const values = (name, all) => [["", all], ...[...new Set(reviews.map((review) => review[name]))].filter(Boolean).map((one) => [one, one])];
    const bytes = (text) => parseFloat(text) * (text.endsWith("TB") ? 1024 : 1);
    const sizes = values("size", "all").sort(([a], [b]) => (a && bytes(a)) - (b && bytes(b)));
    const figures = [...keys(), ...five.map((pair) => whole(...pair))];
    box.replaceChildren(
      el("div", { class: "controls" },
        el("div", {}, el("label", { for: "q" }, "Filter"), el("input", { id: "q", type: "search", placeholder: "name, folder, bus, suite", oninput: set("q") })),
        list("size", "Capacity", sizes), list("form", "Form factor", values("form", "all").sort()),
        list("kind", "Figures", [["", "simulated and measured"], ["virtual", "simulated only"], ["real", "measured only"]]),
        list("columns", "Columns", [["", "keys of reviewers"], ["tests", "figures of tests"]]),
        list("sort", "Sort by", [["", "name"], ...figures.map(({ name, test, bar }) => [name, test.key === RANKING ? bar.title : `${test.title}: ${bar.title}`])]),
        list("bars", "Bars", [["", "selected drives, if two or more"], ["all", "all drives, ranked"], ["chosen", "selected drives only"]]),
        el("button", { type: "button", onclick: () => choose([]) }, "Clear selection"),
        el("a", { class: "anchor-link link", href: "#choose" }, "Link to this choice")),
      el("div", { class: "drives", tabindex: "0", role: "region", "aria-label": "List of drives" }, el("table", { id: "list" })));
  };

  // Name without a line break inside "(stand-in)".
  const unbroken = (name) => name.split(/(\(stand-in\))/).map((part, i) => (i % 2 ? el("span", { class: "whole" }, part) : part));

  // Further facts below the name of a review, without those in the name.
  const besides = (review) => {
    const more = review.labels.filter((label) => !review.name.includes(label));
    if (!reviews.every(({ suite }) => suite === reviews[0].suite)) more.unshift(review.suite);
    if (review.stand_in) more.unshift("too little is published");
    const twice = reviews.filter(({ drive }) => drive === review.drive).length > 1;
    if (twice && !review.name.endsWith(`, ${review.folder}`)) more.unshift(review.folder);
    return more.some(Boolean) ? el("small", {}, more.filter(Boolean).join("; ")) : null;
  };

  const showList = () => {
    for (const name of [...FILTERS, "sort", "columns", "bars"]) {
      const input = document.getElementById(name);
      if (input.value !== state[name]) input.value = state[name];
    }
    const by = sortBy();
    let list = filtered();
    if (by) {
      const known = ranked(list, by.test, by.bar.key, by.bar.better);
      list = [...known, ...list.filter((review) => !known.includes(review))];
    } else {
      list.sort(inOrder);
    }
    const linked = reviews.some(({ shipped }) => !shipped);
    const focused = document.activeElement && document.activeElement.id;
    const shown = columns();
    if (by && !shown.some(({ name }) => name === state.sort)) shown.push({ name: state.sort, test: by.whole, bar: by.bar });
    const width = 3 + shown.length + (linked ? 1 : 0);
    let last = "";
    const rows = list.flatMap((review) => {
      const id = `choose-${review.key}`;
      const on = state.drives.includes(review.key);
      const row = el("tr", { class: on ? "on" : null },
        el("td", {}, el("input", { type: "checkbox", id, checked: on, onchange: () => toggle(review.key) })),
        el("th", { scope: "row" }, el("label", { for: id }, unbroken(review.name)), besides(review)), el("td", { class: "size" }, capacityOf(review.bytes), review.form ? el("small", {}, review.form) : null),
        shown.map(({ name, test, bar }) => {
          const value = (review.values[test.key] || {})[bar.key];
          const known = value && value[0] !== null;
          return el("td", { class: name === state.sort ? "figure by" : "figure", title: known ? value[4] : null }, known ? value[3] : test.key === RANKING ? "" : "–");
        }),
        linked ? el("td", {}, review.shipped ? "" : el("a", { href: `reviews/${review.key}.html`, "aria-label": `Report of ${review.name}` }, "report")) : null);
      if (by || review.group === last) return [row];
      last = review.group;
      return [el("tr", { class: "group-row" }, el("th", { colspan: width, scope: "rowgroup" }, review.group)), row];
    });
    const brief = ({ title }) => title.split(" (")[0];
    const apart = new Set(shown.map(({ test }) => brief(test))).size === shown.length;
    const headOf = ({ test, bar }) => (test.key === RANKING ? bar.head : apart ? brief(test) : test.title);
    const sorting = ({ name, test, bar }) => {
      const on = state.sort === name;
      return el("th", { scope: "col", class: "figure", "aria-sort": on ? (bar.better === "lower" ? "ascending" : "descending") : "none" },
        el("button", { type: "button", id: `sort-${name}`, title: bar.title, onclick: () => { state.sort = on ? "" : name; write(); showList(); } }, `${headOf({ test, bar })}${bar.unit ? `, ${bar.unit}` : ""}`, on ? " \u25be" : ""));
    };
    document.getElementById("list").replaceChildren(
      el("caption", { class: "sr-only" }, `${list.length} of ${reviews.length} reviews`),
      el("thead", {}, el("tr", {}, ["Selected", "Drive", "Capacity"].map((head) => el("th", { scope: "col" }, head)), shown.map(sorting), linked ? el("th", { scope: "col" }, "Review") : null)),
      el("tbody", {}, rows.length ? rows : el("tr", {}, el("td", { colspan: width }, "No drive matches. Clear the filter to show all."))));
    if (focused && (focused.startsWith("choose-") || focused.startsWith("sort-"))) {
      const again = document.getElementById(focused);
      if (again) again.focus();
    }
  };

  const showChosen = () => {
    document.getElementById("chosen").replaceChildren(...state.drives.map((key) => {
      const review = byKey.get(key);
      return el("span", { class: "chip" }, sample(looksOf(key)), el("span", { title: review.name }, review.name),
        el("button", { type: "button", "aria-label": `Remove ${review.name}`, onclick: () => toggle(key) }, "×"));
    }));
  };

  // --- bars in rank order -------------------------------------------------------------------------

  const TIE = 0.005;
  const uncertain = (row) => row[2] || [row[0] * (1 - TIE), row[0] * (1 + TIE)];
  const span = (row) => row[2] || (row[1] ? [Math.max(0, row[0] - row[1]), row[0] + row[1]] : null);

  // End of the scale, and bars that are cut: same rule as `top_of` in markup.py.
  const CUT = 5;
  const CUT_NOTE = `Bar with a gap: more than ${CUT} times as long as any bar without one`;
  const CUT_ROOM = 1.25;
  const scaleEnd = (rows) => {
    const values = rows.map((row) => row[0]).sort((a, b) => b - a);
    const ends = values.filter((value, at) => at > 0 && at < Math.floor((values.length + 1) / 2) && value > 0 && CUT * value < values[at - 1]);
    const longest = ends.length ? ends[ends.length - 1] : Infinity;
    const whole = rows.filter((row) => row[0] <= longest).map((row) => Math.max(row[0], (span(row) || [0, 0])[1], row[5] || 0));
    return (ends.length ? CUT_ROOM : 1) * Math.max(1e-9, ...whole);
  };

  const barRow = (review, test, bar, top, place) => {
    const row = review.values[test.key][bar.key];
    const [value, , , words, detail, printed, said, relation, source, address] = row;
    const on = state.drives.includes(review.key);
    const share = (part) => Math.max(0, Math.min(100, (100 * part) / top));
    const cut = value > top;
    const track = [el("i", { class: cut ? "fill cut" : "fill", style: `width:${share(value).toFixed(2)}%;--bar:${on ? cssColour(looksOf(review.key).colour) : "var(--other)"}` })];
    const ends = span(row);
    if (ends && ends[1] <= top && share(ends[1]) - share(ends[0]) >= 0.5) {
      track.push(el("i", { class: "whisker", style: `left:${share(ends[0]).toFixed(2)}%;width:${(share(ends[1]) - share(ends[0])).toFixed(2)}%` }));
    }
    const text = [el(bar.doubt && review.kind === "virtual" ? "s" : "b", {}, words), el("small", {}, detail)];
    if (typeof printed === "number") {
      if (printed <= top) track.push(el("i", { class: `mark ${relation}`, style: `left:${share(printed).toFixed(2)}%` }));
      text.push(" ", el("small", { class: "said" }, `published: ${said}, `, address ? el("a", { href: address }, source) : `${source} (no link)`));
    }
    return el("tr", { class: on ? "on" : null, title: cut ? CUT_NOTE : null },
      el("th", { scope: "row" }, place ? el("span", { class: "place" }, `${place}.`) : null, unbroken(review.name),
        review.old ? el("span", { class: "chip warn", title: review.old }, "old") : null),
      el("td", {}, el("span", { class: "track", "aria-hidden": "true" }, track), el("span", { class: "value" }, text)));
  };

  // Results whose intervals overlap share a rank; a stand-in has none: same rule as `rank` in figures.py.
  const ranksOf = (list, test, bar) => {
    const own = (review) => !review.stand_in && !review.values[test.key][bar.key][4].startsWith("nearest load");
    const spans = list.filter(own).map((review) => [review.key, uncertain(review.values[test.key][bar.key])]);
    const above = (one, other) => (bar.better === "lower" ? other[1] < one[0] : other[0] > one[1]);
    let last = 1;
    return new Map(spans.map(([key, one]) => [key, (last = Math.max(last, 1 + spans.filter(([, other]) => above(one, other)).length))]));
  };

  const rank = (test, bar, full) => {
    const list = ranked(filtered(), test.key, bar.key, bar.better);
    const places = ranksOf(list, test, bar);
    for (const key of state.drives) {
      const review = byKey.get(key);
      if (!list.includes(review) && typeof valueOf(review, test.key, bar.key) === "number") list.push(review);
    }
    const chosen = list.filter((review) => state.drives.includes(review.key));
    let shown = list;
    if (onlyChosen() && chosen.length) shown = chosen;
    else if (!full) shown = list.filter((review, place) => place < SHOWN_FIRST || chosen.includes(review));
    const rows = shown.map((review) => review.values[test.key][bar.key]);
    const top = scaleEnd(rows);
    const better = bar.better ? `${bar.better} is better` : "";
    const box = el("div", { class: "rank" });
    const table = el("table", { class: "bars", "data-title": bar.title },
      el("caption", {}, el("strong", {}, bar.title), el("span", { class: "unit" }, [bar.unit, better].filter(Boolean).join(", ")),
        bar.doubt ? el("span", { class: "chip warn doubt" }, bar.doubt) : null),
      el("tbody", {}, shown.map((review) => barRow(review, test, bar, top, list.length > 1 && bar.better && !bar.doubt ? places.get(review.key) : 0))));
    box.append(table);
    if (shown.length < list.length && !onlyChosen()) {
      box.append(el("button", { type: "button", class: "more", onclick: () => { box.replaceWith(rank(test, bar, true)); } }, `Show all ${list.length}`));
    }
    if (rows.some((row) => row[0] > top)) box.append(el("p", { class: "small" }, `${CUT_NOTE}.`));
    return shown.length ? box : null;
  };

  // --- charts of the selected drives --------------------------------------------------------------

  const figuresOf = (test, panels) => figures(test.key, test.title, panels.map(({ panel, review }) => (
    { panel, name: review.name, drive: { name: review.plot, ...looksOf(review.key) } })));

  const sentences = (loaded) => {
    const own = loaded.flatMap(({ data, review }) => [...data.notes, ...data.sentences].map((line) => (loaded.length > 1 ? `${review.name}: ${line}` : line)));
    const gaps = [];
    for (const { data } of loaded) for (const { review } of loaded) gaps.push(...((data.against || {})[review.key] || []));
    const lines = [...gaps, ...own];
    const list = el("ul", { class: "explained" }, lines.map((line) => el("li", {}, line)));
    if (lines.length > FOLDED_ABOVE) return el("details", {}, el("summary", {}, `Analysis in ${lines.length} sentences`), list);
    return lines.length ? list : null;
  };

  // Digests of 0.2.0 call the reported throttling "Throttling time".
  const renamed = (data) => {
    for (const fact of data.facts) if (fact[0] === "Throttling time") fact[0] = "Throttling reported";
    return data;
  };

  const factsOf = (loaded) => {
    const names = [...new Set(loaded.flatMap(({ data }) => data.facts.map(([name]) => name)))];
    if (!names.length) return null;
    return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Further figures" }, el("table", { class: "data facts-table" },
      el("thead", {}, el("tr", {}, ["Drive", ...names].map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, loaded.map(({ data, review }) => el("tr", {}, el("th", { scope: "row" }, review.name),
        names.map((name) => el("td", {}, (data.facts.find(([own]) => own === name) || ["", "–"])[1])))))));
  };

  const fill = async (section, test, drives) => {
    const box = section.querySelector(".charts");
    const wanted = drives.join(",");
    try {
      await plotly();
      const loaded = await Promise.all(drives.map(async (key) => ({ review: byKey.get(key), data: await load(key, test.key) })));
      if (section.dataset.drives !== wanted) return; // the selection has changed
      const ids = [...new Set(loaded.flatMap(({ data }) => data.panels.map((panel) => panel.id)))];
      const made = ids.flatMap((id) => figuresOf(test, loaded.flatMap(({ review, data }) => data.panels.filter((panel) => panel.id === id).map((panel) => ({ panel, review })))));
      box.replaceChildren(...[factsOf(loaded), el("div", { class: "panels" }, made), sentences(loaded)].filter(Boolean));
      for (const figure of made) { live.add(figure); figure.paint(); }
      section.dataset.ready = wanted;
    } catch (problem) {
      box.replaceChildren(el("p", { class: "missing" }, `${problem.message} could not be loaded. Check that the folder of the Bench is complete.`));
    }
  };

  const near = new IntersectionObserver((seen) => {
    for (const { isIntersecting, target } of seen) {
      if (!isIntersecting) continue;
      build(target);
    }
  }, { rootMargin: "400px" });

  const build = (section) => {
    const test = tests.find(({ key }) => key === section.dataset.test);
    near.unobserve(section);
    const drives = state.drives.filter((key) => byKey.get(key).tests.includes(test.key));
    const without = state.drives.filter((key) => !drives.includes(key)).map((key) => byKey.get(key).name);
    section.dataset.drives = drives.join(",");
    if (test.key === RANKING) without.length = 0;
    section.replaceChildren(el("h3", {}, test.title), ...test.bars.map((bar) => rank(test, bar, false)).filter(Boolean),
      without.length ? el("p", { class: "missing" }, `No results of this test: ${without.join("; ")}.`) : "",
      test.key === RANKING ? "" : el("div", { class: "charts" }, el("p", { class: "wait" }, drives.length ? "Loading the charts…" : "Select drives to show their charts.")),
      el("details", { class: "method" }, el("summary", {}, `Method: ${test.title}`), el("p", {}, test.method), el("p", { class: "small" }, `Source: ${test.source}`)));
    section.dataset.built = "yes";
    if (drives.length) fill(section, test, drives);
  };

  const showResults = () => {
    live.clear();
    const chosen = new Set(state.drives.flatMap((key) => byKey.get(key).tests));
    const results = document.getElementById("results");
    if (!results.childElementCount) {
      for (const page of [...new Set(tests.map((test) => test.page))]) {
        const own = tests.filter((test) => test.page === page);
        const id = `page-${results.childElementCount}`;
        document.querySelector("nav ul").append(el("li", {}, el("a", { href: `#${id}` }, page.replace(/ performance$/, "").replace(/^Performance c/, "C"))));
        results.append(el("section", { class: "page", id }, el("h2", {}, page),
          own.map((test) => el("section", { class: "test", id: `test-${test.key}`, "data-test": test.key }))));
      }
    }
    for (const section of results.querySelectorAll("[data-test]")) {
      delete section.dataset.ready;
      section.hidden = lone.has(section.dataset.test) && !chosen.has(section.dataset.test);
      if (!section.dataset.built) section.style.minHeight = "30rem"; // keeps distant sections out of view
      near.unobserve(section);
      near.observe(section);
    }
    for (const page of results.children) {
      page.hidden = !page.querySelector("[data-test]:not([hidden])");
      document.querySelector(`nav a[href="#${page.id}"]`).parentElement.hidden = page.hidden;
    }
  };

  // --- colours, width, paper ----------------------------------------------------------------------

  const paint = () => { for (const figure of live) if (figure.isConnected) figure.paint(); };
  // Bars of all tests are printed; charts where they have been loaded.
  follow(paint, () => {
    document.querySelectorAll("[data-test]:not([data-built], [hidden])").forEach(build);
    paint();
  });

  // A chart exists only after its section is filled: a link to it scrolls to the section first.
  const go = (id) => {
    const own = tests.map(({ key }) => key).filter((key) => id.startsWith(`chart-${key.replaceAll(".", "-")}-`));
    goTo(id, `test-${own.reduce((a, b) => (b.length > a.length ? b : a), "")}`);
  };

  return {
    // Called by data/index.js.
    index(data) {
      ({ reviews, tests, five } = data);
      for (const review of reviews) {
        review.size = sizeOf(review.bytes);
        review.search = [review.name, review.folder, review.drive, review.suite, review.kind === "virtual" ? "virtual simulated" : "real measured", capacityOf(review.bytes), review.size, review.form, review.group, ...review.labels].join(" ").toLowerCase();
        byKey.set(review.key, review);
      }
      const runs = new Map();
      for (const key of reviews.flatMap((review) => review.tests)) runs.set(key, (runs.get(key) || 0) + 1);
      if (reviews.length > CHOSEN_MAX) for (const [key, count] of runs) if (count < 2) lone.add(key);
      showChooser();
      start(() => {
        read();
        showList();
        showChosen();
        showResults();
      }, go);
      document.documentElement.dataset.ready = "yes";
    },
    // Called by data/REVIEW/TEST.js.
    part([review, test, data]) { waiting.get(`${review}/${test}`)(unsqueezed(data).then(JSON.parse).then(renamed)); },
  };
})();
