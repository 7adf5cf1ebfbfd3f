"use strict";
// The board: asks for what is new every two seconds and shows what the user selects.
import { draw, forget, number, style } from "/charts.js";
import { COLUMNS, make, matcher, rowOf, sorted, texts } from "/table.js";

const POLL_MS = 2000, READING_MS = 150, MOST_ROWS = 500, FIRST = 12;
const WINDOWS = [1, 3, 5, 10, 20, 50, 100, 200];
const $ = (id) => document.getElementById(id);
const rows = new Map(), drawnRows = new Map(), answers = new Map(), hidden = new Set();
let known = { version: 0, colors: [], axes: {}, metrics: [], tag: "" };
let colorOf = new Map(), isFirst = true, lastPicked = null, reading = 0;
const state = {
  selected: [], metrics: [], filter: "", sort: { key: "started", down: true }, view: "curves",
  open: null, x: "env_step", by: "config", band: "std", window: 0, single: true, log: false,
};

// ---- state in the address, so that a page that is loaded again shows the same

function restore() {
  try {
    const saved = JSON.parse(decodeURIComponent(location.hash.slice(1)));
    for (const key of Object.keys(state)) if (typeof saved[key] === typeof state[key] || key === "open") state[key] = saved[key] ?? state[key];
    if (!Array.isArray(state.selected) || !Array.isArray(state.metrics)) throw new Error("odd");
    isFirst = false;
  } catch { /* there is none */ }
}
const save = () => history.replaceState(null, "", "#" + encodeURIComponent(JSON.stringify(state)));

// ---- requests

async function ask(path, parameters = {}, options = {}) {
  const response = await fetch(`${path}?${new URLSearchParams(parameters)}`, options);
  const type = response.headers.get("content-type") ?? "";
  if (!response.ok) {
    const told = type.includes("json") ? await response.json() : { error: await response.text() };
    throw new Error([told.error, told.hint].filter(Boolean).join("; "));
  }
  return response.json();
}

function tell(error) {
  $("problem").hidden = !error;
  $("problem").textContent = error ? (error instanceof TypeError ? "The board does not answer: has dicore board ended?" : error.message) : "";
}

async function poll() {
  let next = POLL_MS;
  try {
    if (!document.hidden) {
      const found = await ask("/api/runs", { since: known.version });
      if (found.reading) next = READING_MS;
      take(found);
      tell(null);
    }
  } catch (error) { tell(error); }
  setTimeout(poll, next);
}

function take(found) {
  if (found.start !== known.start && known.start) { location.reload(); return; } // another board answers
  const changed = found.rows.map((row) => row.id);
  const ids = new Set(found.ids);
  const gone = [...rows.keys()].filter((id) => !ids.has(id));
  for (const id of gone) { rows.delete(id); drawnRows.delete(id); }
  for (const row of found.rows) { rows.set(row.id, row); drawnRows.delete(row.id); }
  const metrics = known.metrics.join() !== found.metrics.join();
  known = { ...known, ...found, rows: null };
  if (metrics) $("metrics").replaceChildren(...found.metrics.map((each) => make("option", { value: each })));
  if (isFirst && rows.size && !found.reading) {
    const newest = sorted([...rows.values()].filter((row) => row.last !== null), { key: "started", down: true });
    state.selected = newest.slice(0, FIRST).map((row) => row.id);
    isFirst = false;
  }
  if (!state.metrics.length) state.metrics = [found.tag];
  if (!$("x").children.length) controls();
  $("empty").hidden = rows.size > 0 || found.reading > 0;
  $("table").hidden = rows.size === 0;
  if (changed.length || gone.length || !known.shown) { known.shown = true; showTable(); }
  if (!isFirst && !known.drawn) { known.drawn = true; refreshView(true); }
  const touched = [...changed, ...gone].some((id) => state.selected.includes(id));
  if (touched) refreshView("live");
  summarize(found.reading);
}

function summarize(reading) {
  const counts = {};
  for (const row of rows.values()) counts[row.state] = (counts[row.state] ?? 0) + 1;
  const parts = Object.entries(counts).map(([name, count]) => `${count} ${name}`);
  const total = `${rows.size} run${rows.size === 1 ? "" : "s"}`;
  $("summary").textContent = rows.size ? `${total}: ${parts.join(", ")}${reading ? `; reading ${reading} more…` : ""}` : "";
}

// ---- table

function shownRows() { return sorted([...rows.values()].filter(matcher(state.filter)), state.sort); }

function showTable() {
  const shown = shownRows(), some = shown.slice(0, MOST_ROWS), picked = new Set(state.selected);
  const head = $("runs").tHead.rows[0];
  if (!head.children.length) head.append(make("th", {}, ""), ...COLUMNS.map(headOf));
  COLUMNS.forEach(({ key }, at) => {
    const order = key === state.sort.key ? (state.sort.down ? "descending" : "ascending") : "none";
    head.children[at + 1].setAttribute("aria-sort", order);
  });
  const wanted = some.map((row) => {
    const color = picked.has(row.id) ? colorOf.get(row.name) : undefined;
    const looks = `${picked.has(row.id)} ${color}`;
    if (drawnRows.get(row.id)?.looks !== looks) {
      const element = rowOf(row, { picked: picked.has(row.id), color, onPick: pick, onOpen: open, onUntag: untag });
      drawnRows.set(row.id, { looks, element });
    }
    return drawnRows.get(row.id).element;
  });
  const body = $("runs").tBodies[0], focus = focused();
  wanted.forEach((element, at) => { if (body.rows[at] !== element) body.insertBefore(element, body.rows[at] ?? null); });
  while (body.rows.length > wanted.length) body.lastElementChild.remove();
  if (focus) body.querySelector(`tr[data-id="${focus.id}"]`)?.querySelectorAll("input, button")[focus.at]?.focus();
  const left = shown.length - some.length;
  $("shown").textContent = `${state.selected.filter((id) => rows.has(id)).length} selected, ${shown.length} of ${rows.size} shown${left ? ` (the first ${MOST_ROWS})` : ""}`;
}

function focused() {
  const row = document.activeElement?.closest?.("#runs tbody tr");
  return row && { id: row.dataset.id, at: [...row.querySelectorAll("input, button")].indexOf(document.activeElement) };
}

function headOf({ key, title, numeric }) {
  const button = make("button", { type: "button" }, title);
  button.addEventListener("click", () => {
    state.sort = { key, down: state.sort.key === key ? !state.sort.down : Boolean(numeric) };
    save();
    showTable();
  });
  return make("th", { scope: "col", class: numeric ? "number" : "" }, button);
}

function pick(id, on, event) {
  const order = shownRows().map((row) => row.id), from = order.indexOf(lastPicked), to = order.indexOf(id);
  const range = event.shiftKey && from >= 0 ? order.slice(Math.min(from, to), Math.max(from, to) + 1) : [id];
  const rest = state.selected.filter((each) => !range.includes(each));
  lastPicked = id;
  select(on ? [...rest, ...range] : rest);
}

function select(ids) {
  state.selected = ids.slice(0, MOST_ROWS);
  save();
  showTable();
  refreshView(true);
}

async function tag(body) {
  const options = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  try {
    await ask("/api/tags", {}, options);
    for (const id of body.runs) {
      const row = rows.get(id);
      if (!row) continue;
      const tags = new Set([...row.tags, ...(body.add ?? [])].filter((each) => !body.remove?.includes(each)));
      row.tags = [...tags].sort();
      drawnRows.delete(id);
    }
    showTable();
  } catch (error) { tell(error); }
}
const untag = (id, name) => tag({ runs: [id], remove: [name] });

function open(id) {
  state.open = id;
  show("details");
}

// ---- views

function show(view) {
  state.view = view;
  save();
  for (const button of document.querySelectorAll("[data-view]")) {
    const on = button.dataset.view === view;
    button.setAttribute("aria-selected", on);
    $(button.dataset.view).hidden = !on;
  }
  refreshView(true);
}

let waiting = null, isBusy = false;

/** Loads what the view shows again, `live` or because the user asked; further calls meanwhile are one. */
function refreshView(force) {
  if (isBusy) { waiting = waiting === true || force === true || "live"; return; }
  isBusy = true;
  const views = { curves: showCurves, differences: showDifferences, details: showDetails };
  (views[state.view] ?? showCurves)(force).then(() => undefined, tell).finally(() => {
    isBusy = false;
    if (waiting !== null) { const again = waiting; waiting = null; refreshView(again); }
  });
}

async function showCurves() {
  const parameters = new URLSearchParams({ x: state.x, by: state.by, band: state.band, window: WINDOWS[state.window] });
  parameters.append("runs", state.selected.filter((id) => rows.has(id)).join());
  for (const metric of state.metrics) parameters.append("metric", metric);
  const found = await ask("/api/curves", parameters);
  reading = found.reading;
  answers.clear();
  for (const chart of found.charts) answers.set(chart.metric, chart);
  redraw();
  if (reading) refreshView(true);
}

function redraw() {
  const groups = new Map(); // label -> names of its runs, over all metrics
  for (const answer of answers.values()) for (const group of answer.groups) {
    const names = groups.get(group.label) ?? new Set();
    for (const line of group.lines) names.add(line.name);
    groups.set(group.label, names);
  }
  number([...groups.keys()]);
  colorOf = new Map();
  for (const [label, names] of groups) for (const name of names)
    if (!colorOf.has(name)) colorOf.set(name, style(label, known.colors).color);
  legend(groups);
  charts();
  notes(groups);
  showTable();
}

function legend(groups) {
  $("legend").replaceChildren(...[...groups].map(([label, names]) => {
    const look = style(label, known.colors), line = make("i");
    line.style.setProperty("--c", look.color);
    line.style.setProperty("--dash", look.css);
    const count = names.size > 1 ? ` (mean of ${names.size})` : "";
    const button = make("button", { type: "button", "aria-pressed": !hidden.has(label) }, line, label + count);
    button.addEventListener("click", () => { if (!hidden.delete(label)) hidden.add(label); redraw(); });
    return make("li", {}, button);
  }));
}

function charts() {
  const kept = new Map([...$("charts").children].map((each) => [each.dataset.metric, each]));
  const wanted = [...answers].map(([metric, answer]) => {
    const box = kept.get(metric) ?? chartOf(metric);
    kept.delete(metric);
    box.querySelector("small").textContent = answer.without && answer.groups.length ? `${answer.without} without` : "";
    return { box, answer };
  });
  for (const box of kept.values()) { forget(box.querySelector(".plot")); box.remove(); }
  wanted.forEach(({ box }, at) => { if ($("charts").children[at] !== box) $("charts").insertBefore(box, $("charts").children[at] ?? null); });
  const options = { colors: known.colors, hidden, single: state.single, log: state.log };
  for (const { box, answer } of wanted) draw(box.querySelector(".plot"), answer, options);
}

function chartOf(metric) {
  const close = make("button", { type: "button", "aria-label": `remove chart ${metric}` }, "×");
  close.addEventListener("click", () => setMetrics(state.metrics.filter((each) => each !== metric)));
  const title = metric === known.tag ? "mean return of an evaluation" : metric;
  const box = make("section", { class: "chart" }, make("h3", {}, make("span", {}, title), make("span", {}, make("small", { class: "note" }), close)), make("div", { class: "plot" }));
  box.dataset.metric = metric;
  return box;
}

function notes(groups) {
  const none = state.selected.some((id) => rows.has(id)) ? "None of the selected runs has values of these metrics yet." : "Select runs in the table.";
  $("curves-note").textContent = reading ? `Reading ${reading} more of the selected runs…` : groups.size ? "" : none;
}

function setMetrics(metrics) {
  state.metrics = metrics.length ? metrics : [known.tag];
  save();
  refreshView(true);
}

async function showDifferences(force) {
  if (force === "live") return; // configs stay
  const found = await ask("/api/differences", { runs: state.selected.filter((id) => rows.has(id)).join() });
  const note = (text) => $("differences").replaceChildren(make("p", { class: "note" }, text));
  if (found.runs.length < 2) note("Select two runs or more in the table.");
  else if (!found.rows.length) note("No option differs but seeds and names.");
  else $("differences").replaceChildren(texts(["option", ...found.runs], found.rows.map(([path, values]) => [make("code", {}, path), ...values])));
}

async function showDetails(force) {
  if (force === "live") return; // it is being read, and a diagnosis takes a second
  const id = rows.has(state.open) ? state.open : state.selected.find((each) => rows.has(each));
  if (!id) { $("details").replaceChildren(make("p", { class: "note" }, "Choose a run: click its name in the table.")); return; }
  if ($("details").dataset.id !== id) $("details").replaceChildren(make("p", { class: "note" }, "Reading…"));
  const found = await ask(`/api/details/${id}`);
  $("details").dataset.id = id;
  const text = make("div");
  text.innerHTML = found.html; // escaped by the board; scripts in it do not run
  const again = make("button", { type: "button" }, "Refresh");
  again.addEventListener("click", () => refreshView(true));
  const time = make("span", { class: "note" }, `as of ${new Date().toLocaleTimeString()}`);
  $("details").replaceChildren(make("div", { class: "bar" }, make("h2", {}, found.name), time, again), text);
}

// ---- controls

function smoothing() {
  const points = WINDOWS[state.window] ?? 1;
  $("points").textContent = points > 1 ? `${points} points` : "off";
}

function controls() {
  $("x").append(...Object.entries(known.axes).map(([key, title]) => make("option", { value: key }, title)));
  for (const name of ["x", "by", "band", "window", "single", "log"]) {
    const control = $(name), key = control.type === "checkbox" ? "checked" : "value";
    control[key] = state[name];
    control.addEventListener("input", () => {
      state[name] = name === "window" ? Number(control.value) : control[key];
      save();
      smoothing();
      if (name === "single" || name === "log") redraw();
      else refreshView(true);
    });
  }
  smoothing();
  $("filter").value = state.filter;
  $("filter").addEventListener("input", () => { state.filter = $("filter").value; save(); showTable(); });
  $("all").addEventListener("click", () => select(shownRows().map((row) => row.id)));
  $("none").addEventListener("click", () => select([]));
  $("tagging").addEventListener("submit", (event) => {
    event.preventDefault();
    const name = $("tag").value.trim();
    if (name && state.selected.length) tag({ runs: state.selected, add: [name] }).then(() => { $("tag").value = ""; });
  });
  $("adding").addEventListener("submit", (event) => {
    event.preventDefault();
    const metric = $("metric").value.trim();
    if (known.metrics.includes(metric) && !state.metrics.includes(metric)) setMetrics([...state.metrics, metric]);
    $("metric").value = "";
  });
  for (const button of document.querySelectorAll("[data-view]"))
    button.addEventListener("click", () => show(button.dataset.view));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) refreshView(true); });
  show(state.view in { curves: 1, differences: 1, details: 1 } ? state.view : "curves");
}

restore();
poll();
