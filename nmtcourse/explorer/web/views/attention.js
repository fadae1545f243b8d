// Every attention of the sentence: small maps of all heads, one large, and the weights of one word.

import { between, drawn, element, marked, onArrows, rounded } from "../dom.js";
import { goldOf, mapOf } from "../facts.js";
import { KINDS } from "../state.js";
import { largeMap, smallMap } from "./heatmap.js";
import { lineMap } from "./lines.js";

export function attentionView(page) {
  const { say } = page;
  const kinds = element("div", { class: "choice", role: "group", id: "kinds" });
  const about = element("p", { class: "about" });
  const multiples = element("div", { class: "multiples", id: "multiples", role: "group" });
  const svg = drawn("svg", { class: "map", id: "map", tabindex: 0, role: "img" });
  const scroll = element("div", { class: "scroll" }, svg);
  const bars = element("div", { class: "bars" });
  const title = element("h3", { id: "map-title" });
  const ways = element("div", { class: "choice", role: "group", id: "ways" });
  const head = element("div", { class: "line" }, title, ways);
  const readout = element("p", { class: "readout", id: "readout", "aria-live": "polite" });
  const legend = element("p", { class: "legend" });
  const large = element("div", { class: "large" }, scroll, bars);
  const one = element("div", { class: "one", id: "one" }, head, readout, large, legend);
  const node = element("div", {}, kinds, about, multiples, one);
  let shown;

  function update() {
    const { state } = page;
    kinds.replaceChildren(...KINDS.map((kind) => kindButton(page, kind)));
    kinds.setAttribute("aria-label", say("kinds"));
    about.replaceChildren(...marked(captionOf(page)));
    shown = { ...chosenMap(page), column: -1 };
    multiples.setAttribute("aria-label", say("multiples"));
    multiples.style.setProperty("--heads", page.found.trace.maps[state.kind][0].length + 1);
    multiples.replaceChildren(...smallMaps(page, shown));
    title.textContent = mapName(page, state.kind, shown.layer, state.head);
    ways.replaceChildren(...[false, true].map((lines) => wayButton(page, lines)));
    ways.setAttribute("aria-label", say("ways"));
    svg.setAttribute("aria-label", say("map.label", { name: title.textContent }));
    legend.replaceChildren(...legendOf(page, shown));
    draw();
  }

  function draw() {
    const beside = getComputedStyle(bars).flexBasis === "230px" ? 254 : 0;
    const [room, on] = [(large.clientWidth || 854) - beside, { point: select, choose: keep }];
    if (page.state.lines) lineMap(svg, shown, room, on, [say("lines.from"), say("lines.to")]);
    else largeMap(svg, shown, room, on);
    bars.replaceChildren(...rowBars(page, shown));
    readout.replaceChildren(...marked(readoutOf(page, shown)));
    if (page.state.kind === "cross") page.shadeRow(shown.row);
  }

  function select(row, column) {
    if (row === shown.row && column === shown.column) return;
    shown.row = between(row, 0, shown.rows.length - 1);
    shown.column = between(column, -1, shown.columns.length - 1);
    draw();
  }

  function keep(row, column) {
    select(row, column);
    page.remember({ row: shown.row });
  }

  onArrows(svg, (x, y) => keep(shown.row + y, Math.max(shown.column + x, 0)));
  new ResizeObserver(() => shown && large.clientWidth && draw()).observe(large);
  page.pointRow = (row) => shown && page.state.kind === "cross" && select(row, -1);
  return { node, update };
}

/** What the maps of a kind show, with the masks as they are now. */
function captionOf({ say, state }) {
  const caption = say(`about.${state.kind}`);
  if (state.kind === "decoder-self") return state.causal ? caption : say("about.decoder-self.open");
  if (!state.pads) return caption;
  return `${caption}${say(state.padding ? "about.pads" : "about.pads.open")}`;
}

function kindButton(page, kind) {
  const pressed = page.state.kind === kind;
  const show = () => page.set({ kind, row: -1 });
  const name = page.say(`kind.${kind}`);
  return element(
    "button",
    { id: `kind-${kind}`, "aria-pressed": String(pressed), onclick: show },
    name,
  );
}

/** A grid, or lines between words: two drawings of the same weights. */
function wayButton(page, lines) {
  const name = lines ? "lines" : "grid";
  const pressed = String(page.state.lines === lines);
  const onclick = () => page.set({ lines, row: page.state.row });
  return element("button", { id: `as-${name}`, "aria-pressed": pressed, onclick }, page.say(`as.${name}`));
}

/** The map that the state chooses; the longest word is shown where none is chosen. */
function chosenMap(page) {
  const { state, found, examples } = page;
  const { trace } = found;
  const [rows, columns] = [trace.rows[state.kind], trace.columns[state.kind]];
  const layer = state.layer < 0 ? trace.maps[state.kind].length - 1 : state.layer;
  const last = Math.min(layer, trace.maps[state.kind].length - 1);
  const words = rows.map((word) => (word.startsWith("<") ? 0 : word.length));
  const row =
    state.row >= 0 ? Math.min(state.row, rows.length - 1) : words.indexOf(Math.max(...words));
  const gold = goldOf(examples, found, state.kind);
  const weights = mapOf(trace, state.kind, last, state.head);
  return { weights, rows, columns, layer: last, row, gold, hidden: hiddenBy(state, found) };
}

/** Which cells a mask hides: what comes later, and PADs at the end. */
function hiddenBy(state, found) {
  const length = found.source.ids.length;
  if (state.kind === "decoder-self") return (row, column) => state.causal && column > row;
  return (_, column) => state.padding && column >= length;
}

function mapName(page, kind, layer, head) {
  const { say } = page;
  const which = head < 0 ? say("mean") : say("head", { n: head });
  return say("map.name", {
    kind: say(`kind.${kind}`),
    layer: say("layer", { n: layer }),
    head: which,
  });
}

function smallMaps(page, shown) {
  const { state, found, say } = page;
  const maps = found.trace.maps[state.kind];
  const heads = [-1, ...maps[0].keys()];
  const names = heads.map((head) => (head < 0 ? say("mean") : say("head", { n: head })));
  const top = ["", ...names].map((name) => element("span", { class: "axis" }, name));
  const rows = maps.flatMap((_, layer) => {
    const buttons = heads.map((head) => smallButton(page, shown, layer, head));
    return [element("span", { class: "axis" }, say("layer", { n: layer })), ...buttons];
  });
  return [...top, ...rows];
}

function smallButton(page, shown, layer, head) {
  const { state, found } = page;
  const [rows, columns] = [shown.rows.length, shown.columns.length];
  const pressed = layer === shown.layer && head === state.head;
  const off = head >= 0 && state.off.split(",").includes(`${state.kind}.${layer}.${head}`);
  const attributes = {
    id: `small-${layer}-${head}`,
    class: off ? "small off" : "small",
    style: `aspect-ratio: ${between(columns / rows, 0.7, 1.6)}`,
    "aria-pressed": String(pressed),
    "aria-label": mapName(page, state.kind, layer, head) + (off ? ` (${page.say("off")})` : ""),
    onclick: () => page.set({ layer, head, row: shown.row }),
  };
  return element(
    "button",
    attributes,
    smallMap(mapOf(found.trace, state.kind, layer, head), rows, columns),
  );
}

function rowBars(page, { weights, rows, columns, row, column, hidden }) {
  const head = element("p", { class: "bars-title" }, page.say("looks", { word: rows[row] }));
  const lines = columns.map((word, c) => {
    const weight = weights[row * columns.length + c];
    const fill = element("i", { style: `width: ${(100 * weight).toFixed(1)}%` });
    const bar = element("span", { class: "bar", "aria-hidden": true }, fill);
    const value = hidden(row, c) ? page.say("masked") : rounded(weight);
    const kind = `bar-row${c === column ? " chosen" : ""}${weight < 0.05 ? " faint" : ""}`;
    return element("div", { class: kind }, element("span", {}, word), bar, element("b", {}, value));
  });
  return [head, ...lines];
}

/** One sentence for the eye and the screen reader: the chosen cell, or the largest weights. */
function readoutOf(page, { weights, rows, columns, row, column, gold }) {
  const values = [...weights.subarray(row * columns.length, (row + 1) * columns.length)];
  const named = (c) => `*${columns[c]}* ${rounded(values[c])}`;
  if (column >= 0) {
    const known = gold.has(`${row},${column}`) ? page.say("is.gold") : "";
    return (
      page.say("cell", {
        row: rows[row],
        column: columns[column],
        weight: rounded(values[column]),
      }) + known
    );
  }
  const order = [...values.keys()].sort((a, b) => values[b] - values[a]).slice(0, 3);
  const words = order
    .filter((c) => values[c] >= 0.05)
    .map(named)
    .join(page.say("comma"));
  return page.say("row", { row: rows[row], words });
}

function legendOf(page, shown) {
  const { say, state } = page;
  const sample = (kind) => element("i", { class: kind, "aria-hidden": true });
  const weights = state.lines ? say("legend.lines") : say("legend.weights");
  const parts = [element("span", {}, sample(state.lines ? "thick" : "ramp"), weights)];
  if (state.kind === "cross" && shown.gold.size) {
    parts.push(element("span", {}, sample(state.lines ? "goldkey flat" : "goldkey"), say("legend.gold")));
  } else if (state.kind === "cross") {
    parts.push(element("span", {}, say("legend.nogold")));
  }
  return [...parts, element("span", {}, say("legend.keys"))];
}
