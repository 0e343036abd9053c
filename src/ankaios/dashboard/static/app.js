// Starts the page: opens the stream, shows the page of the address, and tells when the connection is lost.

import { h, replace, show } from "./dom.js";
import { changed, fetchJson, model, onChange, takeConnection, takePatch, takeSnapshot, takeUsage } from "./model.js";
import * as pages from "./pages.js";

const NAVIGATION = [["", "Overview"], ["workloads", "Workloads"], ["nodes", "Nodes"], ["devices", "Devices"], ["graph", "Dependencies"],
  ["events", "Events"], ["history", "History"], ["apply", "Apply"]];
const ROUTES = { "": pages.overview, workloads: pages.workloads, nodes: pages.nodes, devices: pages.devices, graph: pages.graph,
  events: pages.events, history: pages.history, apply: pages.apply };
const DETAILS = { workloads: pages.workload, nodes: pages.node };
const main = document.getElementById("main");
let page = null, source = null, streamLost = false;

function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [kind, name] = path.split("/").map(decodeName);
  page?.close?.();
  const make = name ? DETAILS[kind] : ROUTES[kind];
  page = make ? make(name, Object.fromEntries(new URLSearchParams(query ?? ""))) : missing();
  document.title = `${page.title} · Ankaios`;
  for (const link of document.querySelectorAll("#nav a")) {
    if (link.dataset.kind === kind) { link.setAttribute("aria-current", "page"); link.scrollIntoView({ block: "nearest", inline: "center" }); } else link.removeAttribute("aria-current");
  }
  replace(main, page.element);
  page.update();
}

function decodeName(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

function missing() {
  return { title: "Not found", element: h("div", {}, h("h1", {}, "There is no such page"), h("a", { href: "#/" }, "To the overview")), update: () => {} };
}

function navigation() {
  const shown = NAVIGATION.filter(([kind]) => kind !== "apply" || model.session.allowChanges);
  replace(document.getElementById("nav"), h("ul", {}, shown.map(([kind, name]) => h("li", {}, h("a", { href: `#/${kind}`, "data-kind": kind }, name)))));
}

function showConnection() {
  const { connected, fault, server } = model.connection;
  const state = document.getElementById("connection"), banner = document.getElementById("banner");
  const good = connected && !streamLost;
  state.className = `connection ${good ? "good" : "bad"}`;
  show(state, [good, server], () => (good ? h("span", {}, "Connected", h("span", { class: "where" }, ` to ${server}`)) : "Not connected"));
  const reason = streamLost ? "The connection to the dashboard is lost. The page shows the last known state and tries again."
    : connected ? "" : `${fault} The page shows the last known state and tries again.`;
  if (banner.textContent !== reason) banner.textContent = reason;
  banner.hidden = !reason;
  document.body.classList.toggle("stale", !good);
}

function follow() {
  source = new EventSource("/api/stream");
  const take = (kind, handle) => source.addEventListener(kind, (event) => { streamLost = false; handle(JSON.parse(event.data)); });
  take("snapshot", (data) => { const first = !model.ready; takeSnapshot(data); if (first) { route(); showConnection(); } });
  take("patch", takePatch);
  take("usage", takeUsage);
  take("connection", takeConnection);
  take("refused", (data) => { replace(main, h("p", { class: "banner" }, data.text)); source.close(); });
  source.addEventListener("error", () => {
    streamLost = true;
    changed();
    if (source.readyState === EventSource.CLOSED) setTimeout(follow, 1000);
  });
}

onChange(() => { showConnection(); if (model.ready) page?.update(); });
window.addEventListener("hashchange", () => {
  if (location.hash === "#main") { main.focus(); return; }
  if (!model.ready) return;
  route();
  main.focus({ preventScroll: true });
  window.scrollTo(0, 0);
});
model.session = await fetchJson("/api/session");
navigation();
follow();
