// The dependency graph: workloads in layers, what is needed left of what needs it.

import { s } from "./dom.js";
import { model, rows } from "./model.js";

const WIDTH = 220, HEIGHT = 46, GAP_X = 70, GAP_Y = 16;

export function graphData() {
  const styles = new Map();
  for (const row of rows()) {
    const known = styles.get(row.name);
    if (!known || order(row.style) < order(known.style)) styles.set(row.name, row);
  }
  const edges = [];
  for (const workload of model.workloads.values()) {
    for (const [needed, condition] of Object.entries(workload.dependencies)) edges.push([needed, workload.name, condition]);
  }
  const names = new Set(edges.flatMap(([from, to]) => [from, to]));
  const nodes = [...names].sort().map((name) => {
    const row = styles.get(name);
    return { name, style: row?.style ?? "idle", words: row?.words ?? "not in the cluster", agent: row?.agent ?? "" };
  });
  return { nodes, edges, alone: model.workloads.size - nodes.filter((node) => model.workloads.has(node.name)).length };
}

function order(style) { return ["bad", "busy", "good", "done", "idle"].indexOf(style); }

function layers(nodes, edges) {
  const needs = new Map(nodes.map((node) => [node.name, []]));
  for (const [from, to] of edges) needs.get(to).push(from);
  const depth = new Map();
  const visit = (name, path) => {
    if (depth.has(name)) return depth.get(name);
    if (path.has(name)) return 0;  // the server rejects cycles; a page must not hang on one
    path.add(name);
    const found = Math.max(-1, ...needs.get(name).map((other) => visit(other, path))) + 1;
    path.delete(name);
    depth.set(name, found);
    return found;
  };
  const found = [];
  for (const node of nodes) (found[visit(node.name, new Set())] ??= []).push(node);
  return found;
}

export function drawGraph({ nodes, edges }) {
  const columns = layers(nodes, edges);
  const place = new Map();
  columns.forEach((column, x) => column.forEach((node, y) => place.set(node.name, [x * (WIDTH + GAP_X), y * (HEIGHT + GAP_Y)])));
  const width = columns.length * (WIDTH + GAP_X) - GAP_X + 4;
  const height = Math.max(...columns.map((column) => column.length)) * (HEIGHT + GAP_Y) - GAP_Y + 4;
  const picture = s("svg", { class: "graph", viewBox: `-2 -2 ${width} ${height}`, width, height, role: "group", "aria-label": "Dependency graph" });
  picture.append(s("defs", {}, s("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
    s("path", { d: "M0,0 L8,4 L0,8 Z" }))));
  for (const [from, to, condition] of edges) {
    const [x1, y1] = place.get(from), [x2, y2] = place.get(to);
    const start = x1 + WIDTH, end = x2, middle = (start + end) / 2;
    picture.append(s("path", { class: "edge", "marker-end": "url(#arrow)", d: `M${start},${y1 + HEIGHT / 2} C${middle},${y1 + HEIGHT / 2} ${middle},${y2 + HEIGHT / 2} ${end},${y2 + HEIGHT / 2}` },
      s("title", {}, `${to} needs ${from} (${condition})`)));
  }
  for (const node of nodes) {
    const [x, y] = place.get(node.name);
    picture.append(s("a", { href: `#/workloads/${encodeURIComponent(node.name)}`, class: `node ${node.style}` },
      s("title", {}, `${node.name} ${node.words} ${node.agent}`), s("rect", { x, y, width: WIDTH, height: HEIGHT, rx: 8 }), s("circle", { cx: x + 16, cy: y + HEIGHT / 2, r: 5 }),
      s("text", { x: x + 30, y: y + 20, class: "label" }, short(node.name, 24)),
      s("text", { x: x + 30, y: y + 36, class: "sub" }, short(`${node.words} ${node.agent}`, 32))));
  }
  return picture;
}

function short(text, length) { return text.length > length ? `${text.slice(0, length - 1)}…` : text; }
