// Makes elements. Text is always set as text, so names and logs of workloads cannot become markup.

const SVG = "http://www.w3.org/2000/svg";

export function h(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

export function s(tag, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function replace(element, ...children) {
  element.replaceChildren(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
}

// Replaces the content of an element only if the data it shows has changed.
export function show(element, data, make) {
  const text = JSON.stringify(data);
  if (element.shown !== text) {
    element.shown = text;
    replace(element, make(data));
  }
}

// A list of elements by key. Only entries whose data changed are made again, so cost follows the change.
export class KeyedList {
  constructor(parent, make) {
    this.parent = parent;
    this.make = make;
    this.known = new Map();
  }

  update(entries) {
    const kept = new Map();
    let place = this.parent.firstElementChild;
    for (const [key, data] of entries) {
      const text = JSON.stringify(data);
      let item = this.known.get(key);
      if (!item || item.text !== text) {
        const element = this.make(data);
        if (item) {
          if (item.element === place) place = element;
          const focused = item.element.contains(document.activeElement);
          item.element.replaceWith(element);
          if (focused) element.querySelector("a, button")?.focus();
        }
        item = { text, element };
      }
      if (item.element === place) place = place.nextElementSibling;
      else this.parent.insertBefore(item.element, place);
      kept.set(key, item);
    }
    for (const [key, item] of this.known) {
      if (!kept.has(key)) item.element.remove();
    }
    this.known = kept;
  }
}

export function memory(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (bytes >= 1000 && unit < units.length - 1) { bytes /= 1024; unit += 1; }
  return `${unit === 0 || bytes >= 100 ? bytes.toFixed(0) : bytes.toFixed(1)} ${units[unit]}`;
}

export function duration(seconds) {
  const parts = [];
  for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]]) {
    if (seconds >= size || parts.length || unit === "s") parts.push(`${Math.floor(seconds / size)}${unit}`);
    seconds %= size;
    if (parts.length === 2) break;
  }
  return parts.join(" ");
}

export function clock(time) {
  const moment = new Date(time);
  const today = new Date().toDateString() === moment.toDateString();
  const text = moment.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
  return h("time", { datetime: moment.toISOString(), title: moment.toLocaleString() },
    today ? text : `${moment.toLocaleDateString()} ${text}`);
}
