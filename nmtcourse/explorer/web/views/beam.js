// The beam as a tree: a column for each step, the best candidate at the top, pruned ones grey.

import { between, drawn, element, marked, onArrows, rounded, slider, textWidth } from "../dom.js";
import { RANGES, START, stepTo } from "../state.js";
import { apart } from "../written.js";

const ROW = 42;
const PILL = 28;
const GAP = 62; // between columns: room for the number on the branch
const TOP = 30;

export function beamView(page) {
  const { say } = page;
  const about = element("p", { class: "about" });
  const back = stepButton("step-back", -1);
  const forth = stepButton("step-forth", 1);
  const place = element("output", { class: "place", id: "step-place" });
  const steps = element("div", { class: "steps" }, back, place, forth);
  const sliders = element("div", { class: "sliders" });
  const svg = drawn("svg", { class: "tree", id: "tree", tabindex: 0, role: "img" });
  const scroll = element("div", { class: "scroll", id: "tree-box" }, svg);
  const readout = element("p", { class: "readout", id: "tree-readout", "aria-live": "polite" });
  const key = element("p", { class: "legend" });
  const table = element("div", { class: "scroll", id: "finished" });
  const controls = element("div", { class: "controls" }, steps, sliders);
  const node = element("div", {}, about, controls, scroll, readout, key, table);
  let [tree, rank, language, wide, alpha] = [undefined, 0];

  function stepButton(id, by) {
    return element("button", { id, class: "quiet", onclick: () => go(by) });
  }

  function go(by) {
    const { steps: all } = page.found.now.beam;
    const at = between(stepOf(page) + by, 0, all.length - 1);
    page.set({ step: at === all.length - 1 ? -1 : at });
  }

  function update() {
    const { state, found } = page;
    if (language !== page.language) buildSliders();
    language = page.language;
    wide.set(state.beam);
    alpha.set(state.alpha);
    about.replaceChildren(...marked(say("about.beam", { k: state.beam })));
    const step = stepOf(page);
    const all = found.now.beam.steps;
    back.textContent = `← ${say("back")}`;
    forth.textContent = `${say("forth")} →`;
    back.disabled = step === 0;
    forth.disabled = step === all.length - 1;
    place.textContent = say("step.of", { n: step + 1, all: all.length });
    tree = treeOf(page, step);
    rank = between(rank, 0, all[step].length - 1);
    draw();
    svg.setAttribute("aria-label", say("tree.label", { k: state.beam, n: step + 1 }));
    key.replaceChildren(...keyOf(page));
    const ended = endedBy(page, step);
    table.replaceChildren(ended.length ? finishedTable(page, ended) : "");
    const x = tree.columns[step];
    if (scroll.scrollTo) scroll.scrollTo({ left: x - scroll.clientWidth + 190 });
  }

  function buildSliders() {
    const [fewest, most] = RANGES.beam;
    const [least, greatest] = RANGES.alpha;
    const shown = { min: fewest, max: most, step: 1, value: page.state.beam, id: "beam" };
    const penalty = { min: least, max: greatest, step: stepTo(START.alpha), value: page.state.alpha, id: "alpha" };
    wide = slider({
      ...shown,
      label: say("beam.width"),
      change: (beam) => page.set({ beam, step: -1 }),
    });
    alpha = slider({
      ...penalty,
      label: say("alpha"),
      show: alphaText,
      change: (value) => page.set({ alpha: value }),
    });
    sliders.replaceChildren(wide.node, alpha.node);
  }

  function draw() {
    const chosen = page.found.now.beam.steps[stepOf(page)][rank];
    drawTree(svg, tree, chosen, (candidate, at) => {
      rank = candidate;
      if (at === stepOf(page)) draw();
      else page.set({ step: at });
    });
    readout.replaceChildren(...marked(candidateText(page, chosen, rank)));
  }

  onArrows(svg, (x, y) => {
    if (x) return go(x);
    rank = between(rank + y, 0, page.found.now.beam.steps[stepOf(page)].length - 1);
    draw();
  });
  return { node, update };
}

/** A length penalty with one decimal, or with as many as it has. */
function alphaText(value) {
  const decimals = String(Number(value.toFixed(3))).split(".")[1] ?? "";
  return rounded(value, Math.max(1, decimals.length));
}

export function stepOf(page) {
  const last = page.found.now.beam.steps.length - 1;
  return page.state.step < 0 ? last : Math.min(page.state.step, last);
}

/** Ids of the candidates on the way to the best translation. */
export function winningPath({ steps, best }) {
  return new Set(wayTo(steps, best.node).map((one) => one.id));
}

/** The candidates from the first word to the one with this id. */
function wayTo(steps, id) {
  const all = new Map(steps.flat().map((one) => [one.id, one]));
  const way = [];
  for (let one = all.get(id); one; one = all.get(one.parent)) way.unshift(one);
  return way;
}

/** Places of all candidates up to a step, and the branches between them. */
function treeOf(page, step) {
  const { beam } = page.found.now;
  const { steps } = beam;
  const { tokens } = page.model.target;
  const labels = steps.map((step) => apart(step.map(({ tokenId }) => tokens[tokenId])));
  const widths = labels.map((words) => Math.max(...words.map((word) => textWidth(word, 13))) + 22);
  const columns = widths.map(
    (_, i) => 54 + GAP * (i + 1) + widths.slice(0, i).reduce((a, b) => a + b, 0),
  );
  const path = step === steps.length - 1 ? winningPath(beam) : new Set();
  const root = { x: 0, y: TOP, width: 54, label: "<BOS>", state: "root" };
  const places = new Map();
  const nodes = steps.slice(0, step + 1).flatMap((candidates, at) => {
    return candidates.map((one, rank) => {
      const parent = places.get(one.parent) ?? root;
      const spot = {
        x: columns[at],
        y: TOP + rank * ROW,
        width: widths[at],
        label: labels[at][rank],
        at,
        rank,
        parent,
      };
      const node = { ...one, ...spot, best: path.has(one.id), current: at === step };
      places.set(one.id, node);
      return node;
    });
  });
  const height = TOP + ROW * Math.max(...steps.map((candidates) => candidates.length));
  return { root, nodes, columns, widths, step, height, width: columns[step] + widths[step] + 8 };
}

function drawTree(svg, { root, nodes, columns, widths, step, width, height }, chosen, choose) {
  const parts = [nodeOf(root, false, () => {})];
  columns.slice(0, step + 1).forEach((x, at) => {
    parts.push(drawn("text", { x: x + widths[at] / 2, y: 10, class: "column" }, String(at + 1)));
  });
  for (const one of nodes) parts.push(branchOf(one));
  for (const one of nodes)
    parts.push(nodeOf(one, one.id === chosen?.id, () => choose(one.rank, one.at)));
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("width", width);
  svg.setAttribute("height", height);
  svg.replaceChildren(...parts);
}

function kindOf(one) {
  return `${one.state}${one.best ? " best" : ""}${one.current ? " current" : ""}`;
}

function branchOf(one) {
  const [x, y] = [one.parent.x + one.parent.width, one.parent.y + PILL / 2];
  const [to, down] = [one.x, one.y + PILL / 2];
  const middle = x + GAP * 0.35;
  const line = drawn("path", {
    d: `M${x} ${y}C${middle} ${y} ${x + GAP * 0.25} ${down} ${to - 36} ${down}H${to}`,
  });
  const number = drawn(
    "text",
    { x: to - 4, y: down - 4, "text-anchor": "end" },
    rounded(one.tokenLogProb),
  );
  return drawn("g", { class: `branch ${kindOf(one)}` }, line, number);
}

function nodeOf(one, chosen, choose) {
  const box = drawn("rect", { x: one.x, y: one.y, width: one.width, height: PILL, rx: 7 });
  const middle = { x: one.x + one.width / 2, y: one.y + PILL / 2 + 0.5 };
  const centred = { "text-anchor": "middle", "dominant-baseline": "central" };
  const word = drawn("text", { ...middle, ...centred }, one.label);
  const kind = `node ${kindOf(one)}${chosen ? " chosen" : ""}`;
  return drawn("g", { class: kind, onclick: choose }, box, word);
}

function candidateText(page, one, rank) {
  if (!one) return "";
  const words = wayTo(page.found.now.beam.steps, one.id)
    .map(({ token }) => token)
    .join(" ");
  const values = { words, sum: rounded(one.logProb), score: rounded(one.score, 3), rank: rank + 1 };
  return page.say(`candidate.${one.state}`, values);
}

function keyOf({ say }) {
  return ["best", "kept", "pruned", "finished"].map((kind) => {
    const sample = element("i", { class: `key ${kind}`, "aria-hidden": true });
    return element("span", {}, sample, say(`key.${kind}`));
  });
}

/** The tokens of a hypothesis, with "␣" before each that begins a word, where the vocabulary marks it. */
function piecesOf({ model }, { ids }) {
  const { tokens } = model.target;
  return ids.map((id) => tokens[id].replace(/^▁(?=.)/, "␣").replace(/@@$/, "…").replace(/^▁$/, "␣")).join(" ");
}

/** The hypotheses that have ended after a step, best first. */
function endedBy({ found }, step) {
  const { steps, finished } = found.now.beam;
  const seen = new Set(
    steps
      .slice(0, step + 1)
      .flat()
      .map((one) => one.id),
  );
  return finished.filter((one) => seen.has(one.node));
}

function finishedTable(page, ended) {
  const { say, state } = page;
  const heads = ["rank", "words", "logp", "length", "divided"].map((name) => {
    return element(
      "th",
      { scope: "col" },
      say(`table.${name}`, { alpha: alphaText(state.alpha) }),
    );
  });
  const texts = ended.map((one) => page.joined(one.text) || say("nothing"));
  const words = ended.map((one, i) => {
    const alike = texts.some((text, j) => text === texts[i] && j !== i);
    return alike ? piecesOf(page, one) : texts[i];
  });
  const rows = ended.map((one, i) => {
    const cells = [
      i + 1,
      words[i],
      rounded(one.logProb, 3),
      one.ids.length + 1,
      rounded(one.score, 3),
    ];
    return element(
      "tr",
      { class: i ? "" : "best" },
      ...cells.map((cell) => element("td", {}, String(cell))),
    );
  });
  const caption = element("caption", {}, ...marked(say("finished")));
  const body = element("tbody", {}, ...rows);
  return element("table", {}, caption, element("thead", {}, element("tr", {}, ...heads)), body);
}
