// Elements of the page, and numbers as one reads them.

const SVG_SPACE = "http://www.w3.org/2000/svg";

/** An HTML element; attributes "on…" are listeners, those undefined or false are left out. */
export function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for a part of a drawing. */
export function drawn(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG_SPACE, tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export function byId(id) {
  return document.getElementById(id);
}

/** Text with *emphasis* and `code` as nodes, and nothing else: some of the words are a stranger's. */
export function marked(text) {
  const nodes = [];
  for (const part of text.split(/(\*[^*]+\*|`[^`]+`)/)) {
    if (/^\*.+\*$/.test(part)) nodes.push(element("em", {}, part.slice(1, -1)));
    else if (/^`.+`$/.test(part)) nodes.push(element("code", {}, part.slice(1, -1)));
    else if (part) nodes.push(part);
  }
  return nodes;
}

/** A number with so many digits after the point, with a true minus sign. */
export function rounded(value, digits = 2) {
  return value.toFixed(digits).replace("-", "−");
}

/** A whole number with thin spaces between thousands. */
export function counted(value) {
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/** Bytes as B, kB or MB. */
export function sized(bytes) {
  if (bytes < 1000) return `${counted(bytes)} B`;
  return bytes < 1e6 ? `${rounded(bytes / 1e3, 1)} kB` : `${rounded(bytes / 1e6, 1)} MB`;
}

/** A count in millions. */
export function millions(value) {
  return `${rounded(value / 1e6, value < 9.95e6 ? 2 : 1)}\u00a0M`;
}

const pen = document.createElement("canvas").getContext("2d");

/** How wide a word is when it is chosen, and bold. */
export function textWidth(text, size) {
  pen.font = `600 ${size}px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}

/** Arrow keys on `node`: move({left, right, up, down, home, end}) gets columns and rows to go. */
export function onArrows(node, move) {
  const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  node.addEventListener("keydown", (event) => {
    const far = event.key === "Home" ? [-1e6, 0] : event.key === "End" ? [1e6, 0] : undefined;
    const step = steps[event.key] ?? far;
    if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    move(...step);
  });
}

/** A row of things to focus as one stop of the Tab key: arrow keys move from one to the next. */
export function arrowsAmong(row) {
  onArrows(row, (x, y) => {
    const all = [...row.children];
    all[between(all.indexOf(document.activeElement) + x + y, 0, all.length - 1)].focus();
  });
}

export function between(value, least, most) {
  return Math.min(Math.max(value, least), most);
}

/** An input of type range with its label; `show` writes the value beside it. */
export function slider({ id, min, max, step, value, label, show, change }) {
  const output = element("output", { for: id });
  const input = element("input", { id, type: "range", min, max, step, value });
  const write = (shown = Number(input.value)) => {
    output.textContent = show ? show(shown) : shown;
    input.setAttribute("aria-valuetext", output.textContent);
  };
  input.addEventListener("input", () => {
    write();
    change(Number(input.value));
  });
  write();
  const node = element(
    "label",
    { class: "slider", for: id },
    element("span", {}, label),
    input,
    output,
  );
  const set = (next, most = max) => {
    input.max = most;
    input.value = next; // the nearest value of its steps, which may be another one
    write(next);
  };
  return { node, set };
}
