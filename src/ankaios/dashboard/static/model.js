// The cluster in this page: filled by one snapshot, changed by patches of the stream.

export const model = {
  ready: false, workloads: new Map(), agents: new Map(), devices: new Map(), changes: [], usage: {}, load: new Map(),
  connection: { connected: false, fault: "", server: "" }, session: {}, offset: 0,
};
const MAX_CHANGES = 500;
const MAX_LOAD = 60;
const listeners = new Set();
let scheduled = false;

export function onChange(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

// Several changes within one frame are drawn once.
export function changed() {
  if (scheduled) return;
  scheduled = true;
  const draw = () => { scheduled = false; for (const listener of listeners) listener(); };
  if (document.hidden) setTimeout(draw, 200); else requestAnimationFrame(draw);
}

export function takeSnapshot(data) {
  for (const kind of ["workloads", "agents", "devices"]) model[kind] = new Map(Object.entries(data[kind]));
  model.changes = data.changes;
  model.connection = data.connection;
  model.usage = data.usage;
  model.offset = data.now - Date.now();
  model.ready = true;
  noteLoad(data.agents);
  changed();
}

export function takePatch(data) {
  for (const kind of ["workloads", "agents", "devices"]) {
    for (const [name, entry] of Object.entries(data[kind] ?? {})) {
      if (entry === null) model[kind].delete(name); else model[kind].set(name, entry);
    }
  }
  noteLoad(data.agents ?? {});
  if (data.changes?.length) model.changes = [...model.changes, ...data.changes].slice(-MAX_CHANGES);
  changed();
}

export function takeUsage(data) { model.usage = data; changed(); }
export function takeConnection(data) { model.connection = data; changed(); }

function noteLoad(agents) {
  for (const [name, agent] of Object.entries(agents)) {
    if (agent === null) { model.load.delete(name); continue; }
    const values = model.load.get(name) ?? [];
    values.push({ cpu: agent.cpu, free: agent.free });
    model.load.set(name, values.slice(-MAX_LOAD));
  }
}

// --- what people ask for ---

export function words(instance) {
  return instance.state === instance.sub ? instance.state : `${instance.state}(${instance.sub})`;
}

export function style(instance) {
  if (instance.health?.status === "unhealthy") return "bad";
  const text = words(instance);
  if (["Failed", "AgentDisconnected"].includes(instance.state)) return "bad";
  if (text === "Pending(StartingFailed)" || text === "Stopping(DeleteFailed)") return "bad";
  if (instance.state === "Running") return "good";
  if (instance.state === "Succeeded") return "done";
  return ["Pending", "Stopping"].includes(instance.state) ? "busy" : "idle";
}

const RANK = { bad: 0, busy: 1, good: 2, done: 3, idle: 4 };

// One row for each instance; a workload without an instance has one row, too.
export function rows() {
  const found = [];
  for (const workload of model.workloads.values()) {
    const instances = workload.instances.length ? workload.instances
      : [{ agent: workload.agent, id: "", state: "NotScheduled", sub: "NotScheduled", info: "", restarts: 0, health: null }];
    for (const instance of instances) {
      found.push({ name: workload.name, runtime: workload.runtime, ...instance, style: style(instance), words: words(instance),
        usage: model.usage[`${workload.name}.${instance.id}.${instance.agent}`] ?? null });
    }
  }
  return found;
}

export function sorted(list, by = "problem") {
  const key = {
    problem: (row) => [RANK[row.style], -(row.usage?.cpu ?? -1)],
    name: () => [], node: (row) => [row.agent], state: (row) => [row.words],
    cpu: (row) => [-(row.usage?.cpu ?? -1)], memory: (row) => [-(row.usage?.memory ?? -1)],
    restarts: (row) => [-row.restarts],
  }[by];
  return list.map((row) => [[...key(row), row.name, row.agent, row.id], row])
    .sort(([a], [b]) => compare(a, b)).map(([, row]) => row);
}

function compare(a, b) {
  for (let place = 0; place < a.length; place += 1) {
    if (a[place] < b[place]) return -1;
    if (a[place] > b[place]) return 1;
  }
  return 0;
}

export function counts(list) {
  const found = { bad: 0, busy: 0, good: 0, done: 0, idle: 0 };
  for (const row of list) found[row.style] += 1;
  return found;
}

export const NAMES = { bad: "problem", busy: "changing", good: "running", done: "finished", idle: "not scheduled" };

export function reason(row) {
  if (row.health?.status === "unhealthy") return row.health.text || "The health check fails.";
  if (row.info) return row.info;
  if (row.state === "AgentDisconnected") return `The agent '${row.agent}' is not connected.`;
  if (row.words === "Pending(WaitingToStart)") return waitsFor(row.name);
  if (row.words === "Stopping(WaitingToStop)") return waitsForDependents(row.name);
  if (row.words === "Pending(Initial)" && row.agent && !model.agents.has(row.agent)) return `The agent '${row.agent}' is not connected.`;
  if (row.state === "NotScheduled") return "No agent is chosen for it.";
  return "";
}

function waitsFor(name) {
  const needed = Object.keys(model.workloads.get(name)?.dependencies ?? {});
  return needed.length ? `It waits for ${needed.map((one) => `'${one}'`).join(", ")}.` : "";
}

function waitsForDependents(name) {
  const active = dependents(name).filter((other) => model.workloads.get(other).instances.some((one) => ["Running", "Pending"].includes(one.state)));
  return active.length ? `It stops when ${active.map((one) => `'${one}'`).join(", ")} ${active.length === 1 ? "has" : "have"} stopped.` : "";
}

export function dependents(name) {
  return [...model.workloads.values()].filter((other) => name in other.dependencies).map((other) => other.name).sort();
}

// --- requests ---

export async function fetchJson(path) {
  try {
    const response = await fetch(path, { headers: { Accept: "application/json" } });
    return response.ok ? await response.json() : { fault: (await response.text()).trim() };
  } catch {
    return { fault: "The dashboard does not answer." };
  }
}

export async function post(path, body, type = "text/plain") {
  try {
    const headers = { "Content-Type": type, "X-Ankaios-Change-Token": model.session.changeToken };
    const response = await fetch(path, { method: "POST", headers, body });
    return response.ok ? await response.json() : { fault: (await response.text()).trim() };
  } catch {
    return { fault: "The dashboard does not answer." };
  }
}
