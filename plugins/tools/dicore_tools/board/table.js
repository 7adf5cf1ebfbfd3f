"use strict";
// The table of runs: columns, filter, order. Texts of runs are set as text, never as HTML.
const number = (value) => value === null ? "–" : Number(value).toLocaleString("en", { maximumSignificantDigits: 5 });
const whole = (value) => value === null ? "–" : Number(value).toLocaleString("en", { maximumFractionDigits: 0 });
const text = (value) => value || "–";

export const COLUMNS = [
  { key: "name", title: "run" },
  { key: "state", title: "state" },
  { key: "tags", title: "tags" },
  { key: "best", title: "best return", show: number, numeric: true },
  { key: "last", title: "last return", show: number, numeric: true },
  { key: "env_step", title: "env steps", show: whole, numeric: true },
  { key: "rate", title: "steps/s", show: whole, numeric: true },
  { key: "env", title: "environment", show: text },
  { key: "policy", title: "policy", show: text },
  { key: "seed", title: "seed", show: text },
  { key: "started", title: "started", show: text },
];
const ALIASES = { tag: "tags", environment: "env", steps: "env_step", return: "best", run: "name" };

/** Returns a test of rows: all words of a filter must be found. */
export function matcher(filter) {
  const tests = filter.toLowerCase().split(/\s+/).filter(Boolean).map((word) => {
    const not = word.length > 1 && word.startsWith("-");
    const found = test(not ? word.slice(1) : word);
    return not ? (row) => !found(row) : found;
  });
  return (row) => tests.every((each) => each(row));
}

function test(word) {
  const [, name, sign, wanted] = word.match(/^([a-z_]+)(:|>=|<=|>|<|=)(.+)$/) ?? [];
  const key = ALIASES[name] ?? name;
  if (!COLUMNS.some((column) => column.key === key))
    return (row) => COLUMNS.some((column) => String(row[column.key] ?? "").toLowerCase().includes(word));
  if (sign === ":") return (row) => String(row[key] ?? "").toLowerCase().includes(wanted);
  const limit = Number(wanted);
  const equals = (value) => typeof value === "number" ? value === limit : String(value ?? "").toLowerCase() === wanted;
  if (sign === "=") return (row) => Array.isArray(row[key]) ? row[key].some(equals) : equals(row[key]);
  if (Number.isNaN(limit)) return () => false;
  const compare = { ">": (a) => a > limit, "<": (a) => a < limit, ">=": (a) => a >= limit, "<=": (a) => a <= limit }[sign];
  return (row) => row[key] !== null && row[key] !== "" && compare(Number(row[key]));
}

/** Returns rows in the order of a column; those without a value come last. */
export function sorted(rows, { key, down }) {
  const natural = new Intl.Collator("en", { numeric: true });
  const value = (row) => Array.isArray(row[key]) ? row[key].join(" ") : row[key];
  const empty = (row) => value(row) === null || value(row) === "" || value(row) === undefined;
  const by = (a, b) => typeof value(a) === "number" ? value(a) - value(b) : natural.compare(value(a), value(b));
  return [...rows].sort((a, b) => empty(a) - empty(b) || (empty(a) ? 0 : by(a, b) * (down ? -1 : 1))
    || natural.compare(a.name, b.name));
}

function make(tag, attributes = {}, ...children) {
  const found = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) found.setAttribute(name, value);
  found.append(...children);
  return found;
}

/** Makes the row of a run. */
export function rowOf(row, { picked, color, onPick, onOpen, onUntag }) {
  const box = make("input", { type: "checkbox", "aria-label": `select ${row.name}` });
  box.checked = picked;
  box.addEventListener("change", (event) => onPick(row.id, box.checked, event));
  const swatch = make("i", { class: "swatch" });
  if (color) swatch.style.setProperty("--c", color);
  const cells = COLUMNS.map((column) => {
    const cell = make("td", { class: column.numeric ? "number" : `of-${column.key}` });
    if (column.key === "name") {
      const link = make("button", { class: "link", type: "button" }, row.name);
      link.addEventListener("click", () => onOpen(row.id));
      cell.append(link);
      if (row.problem) cell.append(" ", make("span", { class: "mark", title: row.problem }, "⚠ damaged"));
    } else if (column.key === "state") {
      cell.append(make("span", { class: "state", title: row.error }, row.state));
      if (/^[a-z]+$/.test(row.state)) cell.firstChild.classList.add(row.state);
    } else if (column.key === "tags") {
      for (const tag of row.tags) {
        const button = make("button", { type: "button", "aria-label": `remove tag ${tag}` }, "×");
        button.addEventListener("click", () => onUntag(row.id, tag));
        cell.append(make("span", { class: "chip" }, tag, button));
      }
    } else cell.append(column.show(row[column.key]));
    return cell;
  });
  return make("tr", { "data-id": row.id }, make("td", { class: "pick" }, box, swatch), ...cells);
}

/** Makes a table of texts. */
export function texts(head, rows) {
  const top = make("tr", {}, ...head.map((each) => make("th", { scope: "col" }, each)));
  const body = rows.map((row) => make("tr", {}, ...row.map((each) => make("td", {}, each))));
  return make("div", { class: "wide" }, make("table", {}, make("thead", {}, top), make("tbody", {}, ...body)));
}

export { make };
