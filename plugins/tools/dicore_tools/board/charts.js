"use strict";
// Draws the curves that the board answers with. Texts of runs are data: plotly.js reads some HTML
// in names, so that they are escaped here.
const DASHES = ["solid", "dash", "dot"];
const CSS_DASHES = ["solid", "dashed", "dotted"];
const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const places = new Map(); // group -> its number, which gives colour and dash: kept while it is drawn

/** Numbers the groups that are drawn: those that were drawn before keep their number. */
export function number(labels) {
  for (const label of [...places.keys()]) if (!labels.includes(label)) places.delete(label);
  for (const label of labels) {
    if (places.has(label)) continue;
    const taken = new Set(places.values());
    let place = 0;
    while (taken.has(place)) place += 1;
    places.set(label, place);
  }
}

/** Returns colour and dash of a group. */
export function style(label, colors) {
  const place = places.get(label) ?? 0;
  const row = Math.floor(place / colors.length) % DASHES.length;
  return { color: colors[place % colors.length], dash: DASHES[row], css: CSS_DASHES[row] };
}

const faded = (color, part) => color + Math.round(part * 255).toString(16).padStart(2, "0");

function traces(group, look, single) {
  const name = escaped(group.label), found = [];
  const mean = group.mean ?? group.lines[0];
  if (group.mean && group.mean.low) {
    found.push({
      x: [...mean.x, ...[...mean.x].reverse()], y: [...mean.high, ...[...mean.low].reverse()],
      type: "scatter", mode: "lines", fill: "toself", fillcolor: faded(look.color, 0.15),
      line: { width: 0 }, hoverinfo: "skip",
    });
  }
  if (group.mean && single) {
    found.push({
      x: group.lines.flatMap((line) => [...line.x, null]),
      y: group.lines.flatMap((line) => [...line.y, null]),
      type: "scatter", mode: "lines", line: { width: 1, color: faded(look.color, 0.35) },
      hoverinfo: "skip",
    });
  }
  found.push({
    x: mean.x, y: mean.y, name, type: "scatter", mode: mean.x.length > 1 ? "lines" : "markers",
    line: { width: 2.2, color: look.color, dash: look.dash }, marker: { color: look.color, size: 7 },
    hovertemplate: "%{y:.5~g} at %{x:,}<extra>%{fullData.name}</extra>",
  });
  return found;
}

/** Draws one metric; `hidden` groups are left out. */
export function draw(element, answer, { colors, hidden, single, log }) {
  const soft = ink("--soft"), line = ink("--line"), shapes = [];
  if (answer.goal !== null && answer.groups.length)
    shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, y0: answer.goal, y1: answer.goal,
      line: { color: soft, width: 1, dash: "dash" } });
  const axis = { gridcolor: line, zeroline: false, linecolor: line, tickcolor: line, automargin: true };
  const groups = answer.groups.filter((group) => !hidden.has(group.label));
  const layout = {
    margin: { l: 48, r: 12, t: 10, b: 40 }, showlegend: false, shapes, uirevision: `${answer.x_title}${log}`,
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: soft, size: 12, family: "system-ui, sans-serif" },
    xaxis: { ...axis, title: { text: answer.x_title, standoff: 8 } },
    yaxis: { ...axis, type: log ? "log" : "linear" },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: line, activecolor: soft },
    hovermode: "closest", hoverlabel: { namelength: 60 }, dragmode: "zoom",
  };
  const drawn = groups.flatMap((group) => traces(group, style(group.label, colors), single));
  const buttons = [["toImage"], ["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]]; // none that shares
  const options = { responsive: true, displaylogo: false, modeBarButtons: buttons, plotlyServerURL: "" };
  return Plotly.react(element, drawn, layout, options);
}

/** Forgets a chart. */
export const forget = (element) => Plotly.purge(element);
