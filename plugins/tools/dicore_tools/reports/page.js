"use strict";
// Shows values at the pointer (or, with the arrow keys, step by step) and hides groups on request.
for (const box of document.querySelectorAll("input[data-group]")) {
  box.addEventListener("change", () => {
    for (const group of document.querySelectorAll(".group.g" + box.dataset.group))
      group.classList.toggle("off", !box.checked);
  });
}
const names = [...document.querySelectorAll(".legend label")].map((each) => each.textContent);
const short = (value) => Number(value.toPrecision(3)).toLocaleString("en");
for (const figure of document.querySelectorAll("figure:has(svg)")) {
  const svg = figure.querySelector("svg"), output = figure.querySelector("output");
  const plane = svg.dataset, view = svg.viewBox.baseVal;
  const [left, right, low, high] = plane.x.split(" ").map(Number);
  const [top, bottom, most, least] = plane.y.split(" ").map(Number);
  const cursor = document.createElementNS("http://www.w3.org/2000/svg", "line");
  cursor.setAttribute("class", "cursor");
  cursor.setAttribute("y1", top);
  cursor.setAttribute("y2", bottom);
  let place = left;
  const show = (at) => {
    place = Math.min(Math.max(at, left), right);
    const lines = [short(low + (place - left) / (right - left) * (high - low))];
    for (const group of svg.querySelectorAll(".group:not(.off)")) {
      const mean = group.querySelector("polyline.mean");
      if (!mean) continue;
      const points = [...mean.points];
      const after = points.findIndex((point) => point.x >= place);
      if (after < 0 || (after === 0 && points[0].x > place + 1)) continue;
      const next = points[after], last = points[Math.max(after - 1, 0)];
      const part = next.x > last.x ? (place - last.x) / (next.x - last.x) : 0;
      const y = last.y + part * (next.y - last.y);
      const value = most + (y - top) / (bottom - top) * (least - most);
      lines.push(short(value) + "  " + (names[group.dataset.group] || ""));
    }
    output.textContent = lines.join("\n");
    cursor.setAttribute("x1", place);
    cursor.setAttribute("x2", place);
    svg.append(cursor);
  };
  const hide = () => { output.textContent = ""; cursor.remove(); };
  svg.addEventListener("pointermove", (event) => {
    const frame = svg.getBoundingClientRect();
    show((event.clientX - frame.left) / frame.width * view.width);
  });
  svg.addEventListener("pointerleave", hide);
  figure.addEventListener("blur", hide);
  figure.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -8, ArrowRight: 8, Home: -1e6, End: 1e6 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    show(place + step);
  });
}
