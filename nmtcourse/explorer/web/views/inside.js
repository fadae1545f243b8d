// One word's way through one layer, with the model's own numbers, unfolded step by step.

import { arrowsAmong, between, drawn, element, marked, rounded } from "../dom.js";
import { KINDS, switchesOf } from "../state.js";

const SHOWN = 6; // numbers of a vector that are written out
const TALL = 14;

export function insideView(page) {
  const { say } = page;
  const about = element("p", { class: "about" });
  const kinds = choice("inside-kinds");
  const layers = choice("inside-layers");
  const heads = choice("inside-heads");
  const words = element("div", { class: "tries", id: "inside-words", role: "group" });
  const controls = element("div", { class: "controls" }, kinds, layers, heads);
  const flow = element("div", { class: "flow", id: "flow" });
  const node = element("div", { id: "inside" }, about, controls, words, flow);
  const unfolded = new Set(["attention"]); // the steps that the reader has opened stay open
  arrowsAmong(words);

  function choice(id) {
    return element("div", { class: "choice", role: "group", id });
  }

  function update() {
    const { state, found, model } = page;
    const at = placeOf(page);
    about.replaceChildren(...marked(say("about.inside")));
    fill(kinds, "kinds", KINDS, state.kind, (kind) => say(`kind.${kind}`), (kind) => ({ kind, row: -1 }));
    fill(layers, "layers", at.layers, at.layer, (n) => say("layer", { n }), (layer) => ({ layer, row: at.row }));
    fill(heads, "heads.one", [...Array(model.config.n_heads).keys()], at.head, (n) => say("head", { n }), (head) => ({ head, row: at.row }));
    const rows = found.trace.rows[state.kind];
    words.setAttribute("aria-label", say("inside.words"));
    words.replaceChildren(...rows.map((word, row) => pick(word, row === at.row, () => page.set({ row }), `inside-word-${row}`)));
    const { ids } = found.source;
    const way = model.inside(at.side, at.layer, at.row, ids, found.read, switchesOf(state, ids.length));
    flow.replaceChildren(...stepsOf(page, at, way).map((step) => fold(step, unfolded)));
  }

  function fill(group, key, values, chosen, name, change) {
    group.setAttribute("aria-label", say(key));
    group.replaceChildren(...values.map((value) => pick(name(value), value === chosen, () => page.set(change(value)), `${group.id}-${value}`, "")));
  }

  return { node, update };
}

/** Which layer, head and position the state names. */
function placeOf({ state, found }) {
  const maps = found.trace.maps[state.kind];
  const rows = found.trace.rows[state.kind];
  const longest = rows.reduce((best, word, i) => (!word.startsWith("<") && word.length > rows[best].length ? i : best), 0);
  return {
    side: state.kind === "encoder-self" ? "encoder" : "decoder",
    layers: [...maps.keys()],
    layer: state.layer < 0 ? maps.length - 1 : Math.min(state.layer, maps.length - 1),
    head: Math.max(Math.min(state.head, maps[0].length - 1), 0),
    row: state.row >= 0 ? Math.min(state.row, rows.length - 1) : longest,
  };
}

function pick(name, pressed, onclick, id, kind = "try") {
  const tabindex = kind ? (pressed ? 0 : -1) : undefined;
  return element("button", { id, class: kind, "aria-pressed": String(pressed), onclick, tabindex }, name);
}

/** The steps in order: {name, text, vector, inner}. */
function stepsOf(page, at, way) {
  const { say, state, found } = page;
  const word = found.trace.rows[state.kind][at.row];
  const K = page.model.config.d_model / page.model.config.n_heads;
  const part = (vector) => vector.subarray(at.head * K, (at.head + 1) * K);
  const steps = [{ name: "enters", text: say("inside.enters", { word, n: at.layer }), vector: way.enters }];
  for (const step of way.steps) {
    const kind = say(step.kind === "feed-forward" ? "inside.forward" : `long.${step.kind}`);
    if (step.normed) steps.push({ name: `${step.kind}-norm`, text: say("inside.norm", { kind }), vector: step.normed });
    if (step.kind === state.kind) {
      const query = part(step.query);
      steps.push({ name: "query", text: say("inside.query", { word, n: at.head, K }), vector: query });
      steps.push({ name: "attention", text: say("inside.scores", { K }), inner: scores(page, at, step, query, part) });
      steps.push({ name: "mixed", text: say("inside.mixed", { n: at.head }), vector: part(step.mixed) });
    }
    if (step.hidden) {
      const on = step.hidden.filter((value) => value > 0).length;
      steps.push({ name: "hidden", text: say("inside.hidden", { on, all: step.hidden.length }), vector: step.hidden });
    }
    steps.push({ name: `${step.kind}-output`, text: say("inside.output", { kind }), vector: step.output });
    steps.push({ name: `${step.kind}-sum`, text: say("inside.sum", { kind }), vector: step.sum });
  }
  return steps;
}

/** A table: for each word that can be read its key, the score, the weight and its value. */
function scores({ say, state, found }, at, { keys, values, weights }, query, part) {
  const names = found.trace.columns[state.kind];
  const scale = state.scale ? Math.sqrt(query.length) : 1;
  const head = ["", "key", "score", "weight", "value"].map((key) => element(key ? "th" : "td", {}, key && say(`inside.${key}`)));
  const rows = names.map((name, s) => {
    const score = part(keys[s]).reduce((sum, value, i) => sum + value * query[i], 0) / scale;
    const weight = weights[at.head][s];
    const fill = element("i", { style: `width: ${(100 * weight).toFixed(1)}%` });
    const bar = element("span", { class: "bar", "aria-hidden": true }, fill);
    const cells = [strip(part(keys[s])), rounded(score), element("span", { class: "weighed" }, bar, rounded(weight)), strip(part(values[s]))];
    return element("tr", {}, element("th", { scope: "row" }, name), ...cells.map((cell) => element("td", {}, cell)));
  });
  const table = element("table", { class: "scores" }, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows));
  return element("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": say("inside.table") }, table);
}

function fold({ name, text, vector, inner }, unfolded) {
  const numbers = vector && element("code", {}, `[${[...vector.subarray(0, SHOWN)].map((value) => rounded(value)).join(", ")}, …]`);
  const node = element("details", { class: "step", id: `step-${name}`, open: unfolded.has(name) },
    element("summary", {}, element("span", {}, ...marked(text)), vector ? strip(vector) : ""),
    inner ?? numbers);
  node.addEventListener("toggle", () => (node.open ? unfolded.add(name) : unfolded.delete(name)));
  return node;
}

/** A vector as a strip of cells: positive numbers in one colour, negative ones in another. */
function strip(vector) {
  const most = vector.reduce((best, value) => Math.max(best, Math.abs(value)), 1e-9);
  const wide = between(220 / vector.length, 0.2, 6);
  const cells = [...vector].map((value, i) => {
    const shape = { x: (i * wide).toFixed(2), width: wide.toFixed(2), height: TALL };
    return drawn("rect", { ...shape, class: value < 0 ? "minus" : "plus", opacity: (Math.abs(value) / most).toFixed(2) });
  });
  const width = vector.length * wide;
  return drawn("svg", { class: "strip", width, height: TALL, viewBox: `0 0 ${width} ${TALL}`, "aria-hidden": true, preserveAspectRatio: "none" }, ...cells);
}
