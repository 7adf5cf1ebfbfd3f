// Works with the page as a user does and sends back what it shows.
const found = { errors: [] };
addEventListener("error", (event) => found.errors.push(event.message));
addEventListener("unhandledrejection", (event) => found.errors.push(String(event.reason)));
addEventListener("securitypolicyviolation", (event) => found.errors.push(`${event.violatedDirective} ${event.blockedURI}`));

const $ = (id) => document.getElementById(id);
const wait = async (what, test) => {
  for (let left = 600; left > 0; left -= 1) {
    const value = test();
    if (value) return value;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`not there: ${what}`);
};
const names = () => [...document.querySelectorAll("#runs tbody .link")].map((each) => each.textContent);
const row = (name) => [...document.querySelectorAll("#runs tbody tr")].find((each) => each.querySelector(".link").textContent === name);
const lines = () => document.querySelectorAll(".chart:first-child .scatterlayer .trace").length;
const type = (id, text) => { $(id).value = text; $(id).dispatchEvent(new Event("input", { bubbles: true })); };
const send = (body) => fetch("/probe/found", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

async function work() {
  await wait("table", () => names().length === 4);
  await wait("curves", () => lines() > 0);
  found.legend = [...document.querySelectorAll("#legend button")].map((each) => each.textContent);
  found.lines = lines();
  found.colored = getComputedStyle(row("a_s0").querySelector(".swatch")).backgroundColor;

  type("filter", "last>100 -stop");
  found.filtered = names();
  type("filter", "");
  document.querySelector("#runs th:nth-child(5) button").click();
  found.sorted = names();
  document.querySelector("#runs th:nth-child(5) button").click();
  found.turned = names();

  await fetch("/probe/append", { method: "POST", headers: { "content-type": "application/json" }, body: "{}" });
  await wait("live", () => row("a_s0").textContent.includes("777"));
  await wait("live curve", () => Math.max(...document.querySelector(".plot").data.flatMap((each) => each.y)) > 500);

  $("by").value = "run";
  $("by").dispatchEvent(new Event("input"));
  await wait("single", () => document.querySelectorAll("#legend li").length === 4);
  type("metric", "loss");
  $("adding").requestSubmit();
  await wait("chart", () => document.querySelectorAll("#charts .chart").length === 2);
  await wait("loss", () => document.querySelector(".chart:last-child .scatterlayer .trace"));

  $("none").click();
  await wait("nothing", () => !$("legend").children.length);
  found.nothing = $("curves-note").textContent;
  row("a_s0").querySelector("input").click();
  row("b_s0").querySelector("input").click();
  await wait("two", () => document.querySelectorAll("#legend li").length === 2);

  $("tag").value = "keep";
  $("tagging").requestSubmit();
  await wait("tag", () => document.querySelectorAll(".chip").length === 2);
  row("b_s0").querySelector(".chip button").click();
  await wait("untag", () => document.querySelectorAll(".chip").length === 1);

  document.querySelector("[data-view=differences]").click();
  found.differences = (await wait("options", () => $("differences").querySelector("table"))).innerText.split(/\s+/);
  found.address = location.hash.includes("differences");
  const evil = names().find((each) => each.includes("<"));
  row(evil).querySelector(".link").click();
  found.details = (await wait("details", () => $("details").innerText.includes("How the runs were made") && $("details"))).innerText;
  found.scripts = document.querySelectorAll("#details script, #runs script, #legend script").length;
  found.alerted = Boolean(window.alerted);
  found.wide = document.documentElement.scrollWidth <= innerWidth;
  found.origins = [...new Set(performance.getEntriesByType("resource").map((each) => new URL(each.name).origin))];
}

work().catch((error) => found.errors.push(String(error))).finally(() => send(found));
