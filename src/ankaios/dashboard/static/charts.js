// Small charts as SVG.

import { h, s } from "./dom.js";

// A bar divided by state. The numbers are also in the text beside it, so it is hidden from screen readers.
export function stateBar(counts) {
  const total = Object.values(counts).reduce((sum, one) => sum + one, 0) || 1;
  const bar = s("svg", { class: "state-bar", viewBox: "0 0 100 4", preserveAspectRatio: "none", "aria-hidden": "true" });
  let x = 0;
  for (const [style, count] of Object.entries(counts)) {
    const width = (count / total) * 100;
    if (count) bar.append(s("rect", { class: style, x, y: 0, width: Math.max(width - 0.3, 0.3), height: 4 }));
    x += width;
  }
  return bar;
}

export function sparkline(values, maximum, label) {
  const width = 120, height = 32, step = width / Math.max(values.length - 1, 1);
  const points = values.map((value, place) => [place * step, height - 2 - (Math.min(value, maximum) / (maximum || 1)) * (height - 4)]);
  if (points.length === 1) points.push([width, points[0][1]]);
  const line = points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ");
  return s("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
    s("polygon", { points: `0,${height} ${line} ${width},${height}` }), s("polyline", { points: line }));
}

export function meter(percent, label) {
  const level = percent >= 90 ? "bad" : percent >= 70 ? "busy" : "good";
  return s("svg", { class: `meter ${level}`, viewBox: "0 0 100 6", preserveAspectRatio: "none", role: "img", "aria-label": label },
    s("rect", { class: "track", width: 100, height: 6, rx: 3 }),
    s("rect", { class: "value", width: Math.max(Math.min(percent, 100), 1), height: 6, rx: 3 }));
}

// States over time, oldest left.
export function timeline(entries, now, styleOf) {
  const shown = entries.slice(-40);
  const begin = shown[0].time, span = Math.max(now - begin, 1000);
  const chart = s("svg", { class: "timeline", viewBox: "0 0 1000 28", preserveAspectRatio: "none", role: "img",
    "aria-label": `${shown.length} states since ${new Date(begin).toLocaleString()}; the list below has the details` });
  shown.forEach((entry, place) => {
    const x = ((entry.time - begin) / span) * 1000;
    const end = place + 1 < shown.length ? ((shown[place + 1].time - begin) / span) * 1000 : 1000;
    chart.append(s("rect", { class: styleOf(entry), x, y: 4, width: Math.max(end - x - 1, 2), height: 20, rx: 3 },
      s("title", {}, `${entry.state} ${new Date(entry.time).toLocaleTimeString()}`)));
  });
  return chart;
}

export function slots(device) {
  const names = Object.keys(device.usage).length ? Object.keys(device.usage).sort()
    : Array.from({ length: device.capacity }, (_, index) => `${device.name}-${index}`);
  return h("span", { class: "slots" }, names.map((name) => h("span", {
    class: device.usage[name] ? "slot used" : "slot", role: "img",
    "aria-label": `${name}: ${device.owners[name] || device.usage[name] || "free"}`,
    title: `${name}: ${device.owners[name] || device.usage[name] || "free"}` })));
}
