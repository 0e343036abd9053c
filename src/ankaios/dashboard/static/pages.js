// The pages. Each returns { title, element, update, close }; `update` is called after every change of the model.

import { clock, duration, h, KeyedList, memory, replace, show } from "./dom.js";
import { meter, slots, sparkline, stateBar, timeline } from "./charts.js";
import { drawGraph, graphData } from "./graph.js";
import { lineDifferences } from "./differences.js";
import { counts, dependents, fetchJson, model, NAMES, post, reason, rows, sorted } from "./model.js";

const MAX_LINES = 5000;
const EXPLAINED = 5;
const link = (kind, name) => h("a", { href: `#/${kind}/${encodeURIComponent(name)}` }, name);
const chip = (style, text) => h("span", { class: `chip ${style}` }, text);
const muted = (text) => h("p", { class: "muted" }, text);

function section(title, ...content) {
  const id = `s-${title.toLowerCase().replace(/[^a-z]+/g, "-")}`;
  return h("section", { "aria-labelledby": id }, h("h2", { id }, title), ...content);
}

function table(caption, columns, body, kind = null) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Table: ${caption}` },
    h("table", { class: kind }, h("caption", { class: "hidden" }, caption),
      h("thead", {}, h("tr", {}, columns.map(([name, kind]) => h("th", { scope: "col", class: kind }, name)))), body));
}

// --- overview ---

export function overview() {
  const summary = h("div", { class: "summary" }), problems = h("ul", { class: "cards problems" });
  const nodes = h("ul", { class: "cards nodes" }), changes = h("ol", { class: "changes" }), devices = h("div");
  const problemsSection = section("Problems", problems);
  const devicesSection = section("Devices", devices);
  const problemList = new KeyedList(problems, problemCard), nodeList = new KeyedList(nodes, nodeCard);
  const changeList = new KeyedList(changes, changeLine);
  const element = h("div", {}, summary, problemsSection,
    h("div", { class: "columns" },
      h("div", {}, section("Nodes", nodes), devicesSection),
      section("Recent changes", changes)));
  const update = () => {
    const all = rows(), found = counts(all);
    show(summary, [found, all.length], () => summaryContent(found, all.length));
    const bad = sorted(all.filter((row) => row.style === "bad"));
    problemsSection.hidden = !bad.length;
    problemList.update(bad.slice(0, 50).map((row, place) => [key(row), { ...row, usage: null, reason: reason(row), explained: place < EXPLAINED }]));
    nodeList.update(nodeEntries(all));
    devicesSection.hidden = !model.devices.size;
    show(devices, deviceTotals(), deviceSummary);
    changeList.update(model.changes.slice(-12).reverse().map((change) => [change.number, change]));
  };
  return { title: "Overview", element, update };
}

const key = (row) => `${row.name}.${row.id}.${row.agent}`;

function summaryContent(found, total) {
  const bad = found.bad, moving = found.busy;
  const text = !total ? "No workloads yet"
    : bad ? `${bad} of ${total} ${plural(total, "workload")} ${bad === 1 ? "has" : "have"} a problem`
      : moving ? `${moving} of ${total} ${plural(total, "workload")} ${moving === 1 ? "is" : "are"} changing`
        : total === 1 ? "The workload runs as desired" : `All ${total} workloads run as desired`;
  const legend = Object.entries(found).filter(([, count]) => count).map(([style, count]) =>
    h("li", { class: style }, h("a", { href: `#/workloads?state=${style}` }, h("strong", {}, String(count)), ` ${NAMES[style]}`)));
  return [h("h1", { class: bad ? "bad" : moving || !total ? "" : "good" }, text), stateBar(found), h("ul", { class: "legend" }, legend)];
}

const plural = (count, word) => (count === 1 ? word : `${word}s`);

// The last line of output often names the cause. It is loaded for the first cards only, once for each change.
async function showLastOutput(place, name) {
  const answer = await fetchJson(`/api/workloads/${encodeURIComponent(name)}/why`);
  const line = answer.data?.[0]?.output?.at(-1);
  if (line) place.textContent = line;
}

function problemCard(row) {
  const output = h("p", { class: "last-output" });
  if (row.explained) showLastOutput(output, row.name);
  return h("li", { class: "card bad" },
    h("div", { class: "card-head" }, link("workloads", row.name), chip("bad", row.health?.status === "unhealthy" ? "unhealthy" : row.words)),
    h("p", {}, row.reason || "No reason is known."), output,
    h("p", { class: "muted small" }, row.agent ? ["on ", link("nodes", row.agent)] : "on no node",
      row.restarts ? ` · ${row.restarts} ${plural(row.restarts, "restart")}` : ""));
}

function nodeEntries(all) {
  const names = new Set([...model.agents.keys(), ...all.map((row) => row.agent).filter(Boolean)]);
  return [...names].sort().map((name) => {
    const found = counts(all.filter((row) => row.agent === name));
    return [name, { name, agent: model.agents.get(name) ?? null, found, load: (model.load.get(name) ?? []).map((one) => one.cpu) }];
  });
}

function nodeCard({ name, agent, found, load }) {
  const total = Object.values(found).reduce((sum, one) => sum + one, 0);
  const head = h("div", { class: "card-head" }, link("nodes", name),
    agent ? found.bad ? chip("bad", `${found.bad} ${plural(found.bad, "problem")}`) : null : chip("bad", "not connected"));
  if (!agent) return h("li", { class: "card bad" }, head, muted(`${total} ${plural(total, "workload")}`));
  return h("li", { class: "card" }, head,
    h("div", { class: "load" }, h("span", { class: "value" }, `${agent.cpu} %`), sparkline(load, 100, `CPU of ${name}, now ${agent.cpu} percent`)),
    h("p", { class: "muted small" }, `${memory(agent.free)} free · ${total} ${plural(total, "workload")}`), stateBar(found));
}

function changeLine(change) {
  const target = { workload: "workloads", agent: "nodes", device: "devices" }[change.kind];
  return h("li", { class: change.bad ? "bad" : "" }, clock(change.time), " ",
    change.kind === "device" ? h("a", { href: "#/devices" }, change.name) : link(target, change.name), " ",
    h("span", {}, change.text), change.agent ? h("span", { class: "muted" }, ` on ${change.agent}`) : null,
    change.info ? h("span", { class: "muted info" }, change.info) : null);
}

function deviceTotals() {
  const found = {};
  for (const device of model.devices.values()) {
    const total = (found[device.configuration] ??= { devices: 0, slots: 0, used: 0, offline: 0 });
    total.devices += 1;
    total.slots += device.capacity;
    total.used += Object.values(device.usage).filter(Boolean).length;
    total.offline += device.online === false ? 1 : 0;
  }
  return found;
}

function deviceSummary(found) {
  return h("ul", { class: "plain" }, Object.entries(found).sort().map(([name, total]) => h("li", {},
    h("a", { href: "#/devices" }, name), ` ${total.devices} ${plural(total.devices, "device")}, ${total.used} of ${total.slots} slots used`,
    total.offline ? chip("bad", `${total.offline} offline`) : null)));
}

// --- workloads ---

const COLUMNS = [["Workload", "", "name"], ["Node", "", "node"], ["State", "", "problem"], ["CPU", "number", "cpu"],
  ["Memory", "number", "memory"], ["Restarts", "number", "restarts"], ["Uptime", "number", ""], ["Reason", "wide", ""]];

export function workloadTable(only = () => true, given = {}) {
  let by = "problem", text = "", state = given.state ?? "";
  const body = h("tbody"), count = h("p", { class: "muted small", role: "status" });
  const list = new KeyedList(body, workloadRow);
  const search = h("input", { type: "search", placeholder: "Filter by name, node or state", "aria-label": "Filter workloads",
    oninput: (event) => { text = event.target.value.toLowerCase(); update(); } });
  const choice = h("select", { "aria-label": "State", onchange: (event) => { state = event.target.value; update(); } },
    [["", "all states"], ...Object.entries(NAMES)].map(([value, name]) => h("option", { value, selected: value === state }, name)));
  const buttons = COLUMNS.map(([name, , sort]) => sort
    ? h("button", { class: "sort", onclick: () => { by = sort; update(); } }, name) : name);
  const heads = COLUMNS.map(([, kind, sort], place) => h("th", { scope: "col", class: kind, "data-sort": sort }, buttons[place]));
  const element = h("div", {}, h("div", { class: "tools" }, search, choice, count),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table: Workloads" },
      h("table", { class: "workloads stacked" }, h("caption", { class: "hidden" }, "Workloads"), h("thead", {}, h("tr", {}, heads)), body)));
  const update = () => {
    const all = rows().filter(only);
    const found = all.filter((row) => (!state || row.style === state) && `${row.name} ${row.agent} ${row.words}`.toLowerCase().includes(text));
    list.update(sorted(found, by).map((row) => [key(row), rowData(row)]));
    for (const head of heads) {
      if (head.dataset.sort === by) head.setAttribute("aria-sort", ["name", "node", "problem"].includes(by) ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    }
    count.textContent = found.length === all.length ? `${all.length} ${plural(all.length, "workload")}` : `${found.length} of ${all.length} workloads`;
  };
  return { element, update };
}

function rowData(row) {
  const usage = row.usage;
  return { ...row, reason: reason(row), usage: null, cpu: usage ? (usage.cpu / 1000).toFixed(2) : "", memory: usage ? memory(usage.memory) : "",
    uptime: usage ? duration(usage.uptime) : "" };
}

function workloadRow(row) {
  return h("tr", { class: row.style }, h("th", { scope: "row" }, link("workloads", row.name)),
    h("td", {}, row.agent ? link("nodes", row.agent) : "–"),
    h("td", {}, chip(row.style, row.words), row.health ? chip(row.health.status === "healthy" ? "good" : row.style, row.health.status) : null),
    h("td", { class: "number" }, row.cpu || "–"), h("td", { class: "number" }, row.memory || "–"),
    h("td", { class: "number" }, row.restarts ? String(row.restarts) : "–"), h("td", { class: "number" }, row.uptime || "–"),
    h("td", { class: "wide muted" }, row.reason));
}

export function workloads(_, query) {
  const content = workloadTable(() => true, query);
  return { title: "Workloads", element: h("div", {}, h("h1", {}, "Workloads"), content.element), update: content.update };
}

// --- one workload ---

export function workload(name) {
  const head = h("div", { class: "states" }), facts = h("dl", { class: "facts" }), why = h("div"), needs = h("div");
  const written = h("pre", { tabindex: "0" }), rendered = h("pre", { tabindex: "0" }), history = h("div");
  const output = logView(name);
  const element = h("div", {}, h("h1", {}, name), head, facts,
    h("div", { class: "columns" }, section("Why", why), section("Dependencies", needs)),
    section("States", history), section("Output", output.element),
    section("Definition", h("details", { open: true }, h("summary", {}, "As written"), written),
      h("details", {}, h("summary", {}, "As rendered for the agent"), rendered)));
  let last = "", definition = "";
  const load = async () => {
    const data = await fetchJson(`/api/workloads/${encodeURIComponent(name)}`);
    const records = await fetchJson(`/api/workloads/${encodeURIComponent(name)}/records`);
    show(history, records.data?.length ? records.data : data.timeline ?? [], historyContent);
    if (definition !== data.written + data.rendered) {
      definition = data.written + data.rendered;
      written.textContent = data.written || "It is not part of the desired state.";
      rendered.textContent = data.rendered || "No agent received it.";
    }
    show(why, await fetchJson(`/api/workloads/${encodeURIComponent(name)}/why`), (found) => whyContent(found, name));
  };
  const update = () => {
    const entry = model.workloads.get(name);
    const found = rows().filter((row) => row.name === name);
    show(head, found.map((row) => [row.words, row.style, row.agent, row.health]), () => (found.length ? found.map((row) =>
      h("p", {}, chip(row.style, row.words), row.health ? chip(row.health.status === "unhealthy" ? "bad" : "good", row.health.status) : null,
        row.agent ? [" on ", link("nodes", row.agent)] : null)) : muted("There is no such workload in the cluster.")));
    show(facts, found.map((row) => [row.restarts, row.usage, row.health?.text, entry]), () => factsContent(entry, found));
    show(needs, dependencyData(name, entry), dependencyContent);
    const now = JSON.stringify(found.map((row) => [row.id, row.agent, row.words, row.info, row.restarts, row.health]));
    if (now !== last) { last = now; load(); }
  };
  return { title: name, element, update, close: output.close };
}

function factsContent(entry, found) {
  if (!entry) return [];
  const pairs = [["Runtime", entry.runtime], ["Restart policy", entry.restart.toLowerCase().replace("_", " ")],
    ["Restarts", String(found.reduce((sum, row) => sum + row.restarts, 0))]];
  for (const row of found) {
    if (row.usage) {
      pairs.push(["CPU", `${(row.usage.cpu / 1000).toFixed(2)}`], ["Memory", memory(row.usage.memory)], ["Uptime", duration(row.usage.uptime)]);
    }
    if (row.health) pairs.push(["Health", [row.health.status, row.health.text].filter(Boolean).join(": ")]);
  }
  if (entry.checked && !found.some((row) => row.health)) pairs.push(["Health", "not checked while it does not run"]);
  if (entry.devices.length) pairs.push(["Devices", entry.devices.join(", ")]);
  const tags = Object.entries(entry.tags);
  if (tags.length) pairs.push(["Tags", tags.map(([tag, value]) => `${tag}: ${value}`).join(", ")]);
  return pairs.map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, value)));
}

function whyContent(answer, name) {
  const rowsOf = rows().filter((row) => row.name === name);
  if (answer.data?.length) {
    return h("ol", { class: "causes" }, answer.data.map((cause) => h("li", {},
      cause.workload && cause.workload !== name ? [link("workloads", cause.workload), ": "] : null, cause.text,
      Number(cause.sinceMs) ? h("span", { class: "muted" }, " since ", clock(Number(cause.sinceMs))) : null,
      cause.output?.length ? h("pre", {}, cause.output.join("\n")) : null)));
  }
  const reasons = rowsOf.filter((row) => reason(row)).map((row) => h("p", {}, reason(row)));
  if (!reasons.length) return muted(rowsOf.every((row) => ["good", "done"].includes(row.style)) ? "It runs as desired." : "No reason is known.");
  return [reasons, answer.fault ? h("p", { class: "muted small" }, answer.fault) : null];
}

function dependencyData(name, entry) {
  const stateOf = (other) => { const row = sorted(rows().filter((one) => one.name === other))[0]; return row ? [row.style, row.words] : ["idle", "not in the cluster"]; };
  return {
    needs: Object.entries(entry?.dependencies ?? {}).map(([other, condition]) => [other, condition, ...stateOf(other)]),
    neededBy: dependents(name).map((other) => [other, "", ...stateOf(other)]),
  };
}

function dependencyContent({ needs, neededBy }) {
  const list = (title, entries) => [h("h3", {}, title), entries.length ? h("ul", { class: "plain" }, entries.map(([name, condition, style, text]) =>
    h("li", {}, link("workloads", name), " ", chip(style, text), condition ? h("span", { class: "muted small" }, ` ${condition.replace("ADD_COND_", "until ").toLowerCase()}`) : null)))
    : muted("none")];
  return [list("It needs", needs), list("Needed by", neededBy)];
}

function styleOfWords(entry) {
  const text = entry.state;
  if (entry.health === "unhealthy") return "bad";
  if (text.startsWith("Running")) return "good";
  if (text.startsWith("Succeeded")) return "done";
  if (text.startsWith("Failed") || text.includes("Disconnected") || text.includes("StartingFailed") || text.includes("DeleteFailed")) return "bad";
  return text.startsWith("Pending") || text.startsWith("Stopping") ? "busy" : "idle";
}

function historyContent(entries) {
  if (!entries.length) return muted("No change was seen since the dashboard started.");
  return [timeline(entries, Date.now() + model.offset, styleOfWords), h("ol", { class: "changes" }, entries.slice(-15).reverse().map((entry) =>
    h("li", {}, clock(entry.time), " ", chip(styleOfWords(entry), entry.state), entry.health ? chip(entry.health === "healthy" ? "good" : styleOfWords(entry), entry.health) : null, entry.agent ? h("span", { class: "muted" }, ` on ${entry.agent}`) : null,
      entry.info ? h("span", { class: "muted info" }, entry.info) : null, entry.output?.length ? h("pre", {}, entry.output.join("\n")) : null)))];
}

// --- output of a workload ---

function logView(name) {
  const lines = h("div", { class: "log", tabindex: "0", role: "log", "aria-label": `Output of ${name}`, "aria-live": "off" });
  const status = h("p", { class: "muted small", role: "status" });
  let paused = false, waiting = [], text = "", source = null, number = 0;
  const pause = h("button", { "aria-pressed": "false", onclick: () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    pause.textContent = paused ? "Continue" : "Pause";
    if (!paused) append(waiting.splice(0));
    tell();
  } }, "Pause");
  const search = h("input", { type: "search", placeholder: "Search the output", "aria-label": "Search the output",
    oninput: (event) => { text = event.target.value.toLowerCase(); for (const line of lines.children) mark(line); tell(); } });
  const mark = (line) => { line.hidden = text !== "" && !line.textContent.toLowerCase().includes(text); };
  const tell = () => {
    const found = text ? [...lines.children].filter((line) => !line.hidden).length : 0;
    status.textContent = [text ? `${found} ${plural(found, "line")} found` : "", paused ? `paused, ${waiting.length} new lines` : ""].filter(Boolean).join(" · ");
  };
  const append = (added) => {
    const atEnd = lines.scrollHeight - lines.scrollTop - lines.clientHeight < 40;
    const made = added.slice(-MAX_LINES).map((line) => { const element = h("div", {}, line.text); mark(element); return element; });
    lines.append(...made);
    while (lines.childElementCount > MAX_LINES) lines.firstElementChild.remove();
    if (atEnd) lines.scrollTop = lines.scrollHeight;
  };
  const open = () => {
    const mine = (number += 1);
    source = new EventSource(`/api/workloads/${encodeURIComponent(name)}/logs`);
    source.addEventListener("open", () => { lines.replaceChildren(); waiting = []; status.textContent = ""; });
    source.addEventListener("lines", (event) => {
      const added = JSON.parse(event.data);
      if (paused) { waiting.push(...added); waiting = waiting.slice(-MAX_LINES); tell(); } else append(added);
    });
    source.addEventListener("end", (event) => {
      status.textContent = JSON.parse(event.data).text;
      source.close();
      setTimeout(() => { if (mine === number) reopen(); }, 3000);
    });
  };
  // A workload that is started again has new output.
  let seen = "";
  const state = () => JSON.stringify(model.workloads.get(name)?.instances.map((one) => [one.id, one.agent, one.state, one.restarts]) ?? []);
  const reopen = () => { if (state() !== seen) { seen = state(); open(); } else setTimeout(() => { if (source.readyState === 2) reopen(); }, 3000); };
  seen = state();
  open();
  return { element: h("div", {}, h("div", { class: "tools" }, search, pause, status), lines), close: () => { number += 1; source.close(); } };
}

// --- nodes ---

export function nodes() {
  const list = h("ul", { class: "cards nodes" }), keyed = new KeyedList(list, nodeCard);
  const empty = muted("No agent is connected.");
  return { title: "Nodes", element: h("div", {}, h("h1", {}, "Nodes"), empty, list),
    update: () => { const found = nodeEntries(rows()); empty.hidden = found.length > 0; keyed.update(found); } };
}

export function node(name) {
  const facts = h("div"), content = workloadTable((row) => row.agent === name), resources = h("div");
  const resourcesSection = section("Resources", resources);
  const element = h("div", {}, h("h1", {}, name), facts, resourcesSection, section("Workloads", content.element));
  const update = () => {
    const agent = model.agents.get(name), load = model.load.get(name) ?? [];
    show(facts, [agent, load], () => (agent ? nodeFacts(agent, load) : h("p", {}, chip("bad", "not connected"), " Its workloads may still run.")));
    resourcesSection.hidden = !agent?.resources.length;
    show(resources, agent?.resources ?? [], (found) => table("Resources", [["Resource", ""], ["Used", "number"], ["Allocatable", "number"], ["Capacity", "number"]],
      h("tbody", {}, found.map((one) => h("tr", {}, h("th", { scope: "row" }, one.name), h("td", { class: "number" }, String(one.allocated ?? 0)),
        h("td", { class: "number" }, String(one.allocatable ?? 0)), h("td", { class: "number" }, String(one.capacity ?? 0)))))));
    content.update();
  };
  return { title: name, element, update };
}

function nodeFacts(agent, load) {
  const most = Math.max(...load.map((one) => one.free), 1), tags = Object.entries(agent.tags);
  return h("ul", { class: "cards node-facts" },
    h("li", { class: "card" }, h("h2", {}, "CPU"), h("div", { class: "load" }, h("span", { class: "value" }, `${agent.cpu} %`),
      sparkline(load.map((one) => one.cpu), 100, `CPU, now ${agent.cpu} percent`)), meter(agent.cpu, `CPU ${agent.cpu} percent`)),
    h("li", { class: "card" }, h("h2", {}, "Free memory"), h("div", { class: "load" }, h("span", { class: "value" }, memory(agent.free)),
      sparkline(load.map((one) => one.free), most, `Free memory, now ${memory(agent.free)}`))),
    tags.length ? h("li", { class: "card" }, h("h2", {}, "Tags"), h("ul", { class: "plain" }, tags.map(([tag, value]) => h("li", {}, `${tag}: ${value}`)))) : null);
}

// --- devices ---

export function devices() {
  const body = h("tbody"), list = new KeyedList(body, deviceRow), empty = muted("No device is discovered.");
  const shown = table("Devices", [["Device", ""], ["Configuration", ""], ["Nodes", ""], ["Slots", ""], ["Used by", "wide"]], body, "stacked");
  return { title: "Devices", element: h("div", {}, h("h1", {}, "Devices"), empty, shown),
    update: () => { empty.hidden = model.devices.size > 0; shown.hidden = !model.devices.size; list.update([...model.devices.entries()].sort()); } };
}

function deviceRow(device) {
  const holders = Object.entries(device.usage).filter(([, user]) => user).sort().map(([slot, user]) => {
    const owner = device.owners[slot] || user;
    return h("li", {}, owner.includes(".") ? link("workloads", owner.split(".")[0]) : owner, h("span", { class: "muted small" }, ` ${slot}`));
  });
  return h("tr", { class: device.online === false ? "bad" : "" }, h("th", { scope: "row" }, device.name, device.online === false ? chip("bad", "offline") : null,
    device.shared ? chip("idle", "shared") : null), h("td", {}, device.configuration),
    h("td", {}, device.nodes.map((name, place) => [place ? ", " : "", link("nodes", name)])), h("td", {}, slots(device)),
    h("td", { class: "wide" }, holders.length ? h("ul", { class: "plain" }, holders) : h("span", { class: "muted" }, "free")));
}

// --- graph and events ---

export function graph() {
  const picture = h("div", { class: "scroll graph-box", tabindex: "0", role: "region", "aria-label": "Dependency graph" }), note = h("p", { class: "muted small" });
  return { title: "Dependencies", element: h("div", {}, h("h1", {}, "Dependencies"), note, picture), update: () => {
    const data = graphData();
    note.textContent = data.nodes.length ? `An arrow leads from what is needed to what needs it.${data.alone ? ` ${data.alone} ${plural(data.alone, "workload")} without dependencies ${data.alone === 1 ? "is" : "are"} not shown.` : ""}`
      : "No workload depends on another one.";
    show(picture, data, () => (data.nodes.length ? drawGraph(data) : null));
  } };
}

export function events() {
  const list = h("ol", { class: "changes all" }), keyed = new KeyedList(list, changeLine);
  let text = "", paused = null;
  const search = h("input", { type: "search", placeholder: "Filter events", "aria-label": "Filter events", oninput: (event) => { text = event.target.value.toLowerCase(); update(); } });
  const pause = h("button", { "aria-pressed": "false", onclick: () => {
    paused = paused ? null : model.changes;
    pause.setAttribute("aria-pressed", String(paused !== null));
    pause.textContent = paused ? "Continue" : "Pause";
    update();
  } }, "Pause");
  const empty = muted("Nothing has changed since the dashboard started.");
  const update = () => {
    const found = (paused ?? model.changes).filter((change) => `${change.name} ${change.agent ?? ""} ${change.text} ${change.info ?? ""}`.toLowerCase().includes(text));
    empty.hidden = found.length > 0;
    keyed.update(found.slice(-300).reverse().map((change) => [change.number, change]));
  };
  return { title: "Events", element: h("div", {}, h("h1", {}, "Events"), h("div", { class: "tools" }, search, pause), empty, list), update };
}

// --- history ---

export function history() {
  const content = h("div", {}, muted("Loading …")), result = h("p", { role: "status" });
  const load = async () => show(content, await fetchJson("/api/history"), (answer) => historyList(answer, result, load));
  load();
  let seen = null, timer = null;
  return { title: "History", element: h("div", {}, h("h1", {}, "History"), result, content), close: () => clearTimeout(timer), update: () => {
    const newest = model.changes.at(-1)?.number ?? 0;
    // States may change many times in a second; the history is loaded at most once in that time.
    if (seen !== null && newest !== seen) timer ??= setTimeout(() => { timer = null; load(); }, 1000);
    seen = newest;
  } };
}

function historyList(answer, result, load) {
  if (answer.fault) return muted(answer.fault);
  if (!answer.data.revisions.length) return muted("The desired state has not been changed yet.");
  return h("ol", { class: "revisions" }, answer.data.revisions.map((revision) => h("li", { class: "card" },
    h("div", { class: "card-head" }, h("div", {}, h("h2", {}, `Revision ${revision.number}`), h("span", { class: "muted small" }, clock(revision.time), ` by ${revision.requester}`)),
      revision.number === answer.data.current ? chip("good", "current") : model.session.allowChanges ? rollbackButton(revision.number, result, load) : null),
    revision.note ? h("p", { class: "muted small" }, revision.note) : null,
    revision.entries.map((entry) => h("details", {}, h("summary", {}, `${entry.kind} ${entry.name} ${entry.before === null ? "added" : entry.after === null ? "removed" : "changed"}`),
      diff(entry.before ?? "", entry.after ?? ""))))));
}

function rollbackButton(number, result, load) {
  return h("button", { onclick: async (event) => {
    if (!window.confirm(`Restore the desired state of revision ${number}?`)) return;
    event.target.disabled = true;
    const answer = await post("/api/rollback", JSON.stringify({ revision: number }), "application/json");
    result.textContent = answer.fault ?? `Revision ${number} is restored.`;
    load();
  } }, "Restore");
}

function diff(before, after) {
  const lines = lineDifferences(before.split("\n").filter(Boolean), after.split("\n").filter(Boolean));
  return h("pre", { class: "diff", tabindex: "0" }, lines.map(([kind, line]) => h("span", { class: kind }, `${{ added: "+", removed: "-" }[kind] ?? " "} ${line}\n`)));
}

// --- apply ---

export function apply() {
  if (!model.session.allowChanges) {
    return { title: "Apply", element: h("div", {}, h("h1", {}, "Apply"), muted("Changes are off. Start the dashboard with --allow-changes to turn them on.")), update: () => {} };
  }
  const text = h("textarea", { id: "manifest", rows: "14", spellcheck: "false", placeholder: "apiVersion: v1\nworkloads:\n  web:\n    …" });
  const result = h("div", { role: "status", class: "plan" });
  const commit = h("button", { class: "primary", disabled: true, onclick: () => send() }, "Apply");
  text.addEventListener("input", () => { commit.disabled = true; });
  const plan = async () => {
    replace(result, muted("Planning …"));
    const answer = await post("/api/plan", text.value);
    const refused = answer.data && !answer.data.accepted;
    commit.disabled = Boolean(answer.invalid || refused);  // without a plan the server still checks the manifest
    replace(result, answer.fault ? h("p", { class: answer.invalid ? "fault" : "muted" }, answer.invalid ? answer.fault : `No plan: ${answer.fault}`) : refused ? h("p", { class: "fault" }, answer.data.rejection) : planContent(answer.data));
  };
  const send = async () => {
    commit.disabled = true;
    const answer = await post("/api/apply", text.value);
    replace(result, answer.fault ? h("p", { class: "fault" }, answer.fault) : [h("p", { class: "success" }, "The manifest is applied."),
      h("ul", { class: "plain" }, (answer.data.addedWorkloads ?? []).map((name) => h("li", {}, "started ", link("workloads", name.split(".")[0]))),
        (answer.data.deletedWorkloads ?? []).map((name) => h("li", {}, "removed ", name.split(".")[0])))]);
  };
  return { title: "Apply", element: h("div", { class: "apply" }, h("h1", {}, "Apply"),
    h("label", { for: "manifest" }, "Manifest"), text, h("div", { class: "tools" }, h("button", { onclick: plan }, "Show plan"), commit), result), update: () => {} };
}

function planContent(data) {
  const entries = [...data.workloads.map((one) => ({ ...one, kind: "workload" })), ...data.entries];
  if (!entries.length) return h("p", {}, "Nothing changes.");
  return [h("h2", {}, "Plan"), h("ul", { class: "cards" }, entries.map((one) => h("li", { class: "card" },
    h("div", { class: "card-head" }, h("span", {}, `${one.kind} `, h("strong", {}, one.name)), chip({ create: "good", delete: "bad" }[one.action] ?? "busy", one.action)),
    one.waitsFor?.length ? h("p", { class: "muted small" }, `waits for ${one.waitsFor.join(", ")}`) : null,
    one.fields.length ? h("pre", { class: "diff", tabindex: "0" }, one.fields.map((field) => [
      field.before !== undefined ? h("span", { class: "removed" }, `- ${field.path}: ${field.before}\n`) : null,
      field.after !== undefined ? h("span", { class: "added" }, `+ ${field.path}: ${field.after}\n`) : null])) : null)))];
}
