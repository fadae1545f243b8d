// What decoding keeps: keys and values, their bytes, and the multiplications that this saves.

import {
  between,
  drawn,
  element,
  marked,
  millions,
  onArrows,
  rounded,
  sized,
  slider,
  textWidth,
} from "../dom.js";

export function cacheView(page) {
  const { say } = page;
  const about = element("p", { class: "about" });
  const holder = element("div", { class: "sliders" });
  const svg = drawn("svg", { class: "cache", id: "cache", tabindex: 0, role: "img" });
  const blocks = element("div", { class: "scroll", id: "cache-box" }, svg);
  const numbers = element("dl", { class: "numbers", id: "cache-numbers" });
  const curve = drawn("svg", { class: "curve", role: "img" });
  const curveTitle = element("h3");
  const readout = element("p", { class: "readout", "aria-live": "polite", id: "cache-readout" });
  const side = element("div", {}, curveTitle, curve);
  const both = element("div", { class: "two" }, numbers, side);
  const node = element("div", {}, about, holder, blocks, readout, both);
  let [at, language] = [undefined, undefined];

  function update() {
    const { state, found } = page;
    const all = found.told.length;
    const said = state.step < 0 ? all : Math.min(state.step + 1, all);
    if (language !== page.language) {
      const change = (value) => page.set({ step: value - 1 });
      at = slider({
        id: "said",
        min: 1,
        max: all,
        step: 1,
        value: said,
        label: say("said"),
        change,
      });
      holder.replaceChildren(at.node);
      language = page.language;
    }
    at.set(said, all);
    about.replaceChildren(...marked(say("about.cache")));
    const cost = costOf(page, said);
    drawBlocks(page, svg, said, blocks.clientWidth || 800);
    svg.setAttribute("aria-label", say("cache.label", { n: said }));
    readout.replaceChildren(
      ...marked(say("cache.now", { word: found.trace.columns["decoder-self"][said - 1], n: said })),
    );
    numbers.replaceChildren(...numbersOf(page, cost));
    curveTitle.textContent = say("cache.curve");
    drawCurve(page, curve, said);
    curve.setAttribute("aria-label", say("cache.curve"));
  }

  onArrows(svg, (x) => {
    const all = page.found.told.length;
    const now = page.state.step < 0 ? all - 1 : page.state.step;
    page.set({ step: between(now + x, 0, all - 1) });
  });
  return { node, update };
}

/** Bytes of the cache after so many words, and multiplications with and without it. */
export function costOf({ model, found }, target) {
  const source = found.source.ids.length;
  const count = (cached, words) =>
    words ? model.multiplications({ source, target: words, cached }) : 0;
  const [cached, plain] = [count(true, target), count(false, target)];
  const step = [cached - count(true, target - 1), plain - count(false, target - 1)];
  return {
    bytes: model.cacheBytes({ source, target, beam: 1 }),
    cached,
    plain,
    step,
    saved: 1 - cached / plain,
  };
}

function numbersOf({ say, model, found, state }, cost) {
  const source = found.source.ids.length;
  const beam = model.cacheBytes({ source, target: found.told.length, beam: state.beam });
  const rows = {
    "cache.bytes": sized(cost.bytes),
    "cache.beam": sized(beam),
    "cache.step": say("cache.pair", { a: millions(cost.step[0]), b: millions(cost.step[1]) }),
    "cache.all": say("cache.pair", { a: millions(cost.cached), b: millions(cost.plain) }),
    "cache.saved": `${rounded(100 * cost.saved, 0)} %`,
  };
  return Object.entries(rows).flatMap(([key, value]) => {
    return [element("dt", {}, say(key, { k: state.beam })), element("dd", {}, value)];
  });
}

/** A row of boxes for each decoder layer: what is there, and what this step adds. */
function drawBlocks(page, svg, said, room) {
  const { found, say } = page;
  const [source, read] = [found.trace.columns.cross, found.trace.columns["decoder-self"]];
  const longest = Math.max(...[...source, ...read].map((word) => textWidth(word, 12)));
  const most = Math.max(source.length, read.length);
  const beside = room > 640;
  const cells = beside ? source.length + read.length : most + 1;
  const cell = between(Math.floor((room - (beside ? 160 : 110)) / cells), 14, 30);
  const group = {
    cell,
    left: 78,
    top: 0,
    names: 30 + longest * 0.75,
    layers: page.model.config.n_decoder_layers,
  };
  const tall = group.names + 8 + group.layers * 46;
  const move = beside ? { left: 78 + source.length * cell + 40 } : { top: tall + 8 };
  const second = { ...group, ...move, bare: beside };
  const kindOf = (n) => (n < said - 1 ? "kept" : n === said - 1 ? "fresh" : "empty");
  const first = blocksOf(page, group, source, say("cache.source"), () => "kept");
  const parts = [...first, ...blocksOf(page, second, read, say("cache.target"), kindOf)];
  const reach = (words) =>
    Math.max(...words.map((word, n) => (n + 0.5) * cell + textWidth(word, 12) * 0.75));
  const width = Math.max(
    second.left + reach(read),
    group.left + reach(source),
    group.left + most * cell,
  );
  const height = second.top + tall;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("width", width);
  svg.setAttribute("height", height);
  svg.replaceChildren(...parts);
}

/** Keys and values of one attention in all layers; `bare` leaves out what stands at the left. */
function blocksOf({ say }, { cell, left, top, names, layers, bare }, words, title, kindOf) {
  const parts = [drawn("text", { x: bare ? left : 0, y: top + 12, class: "axis" }, title)];
  words.forEach((word, n) =>
    parts.push(nameOf(left + (n + 0.5) * cell, top + names, word, kindOf(n))),
  );
  for (let layer = 0; layer < layers; layer++) {
    const y = top + names + 8 + layer * 46;
    if (!bare)
      parts.push(drawn("text", { x: 0, y: y + 19, class: "axis" }, say("layer", { n: layer })));
    ["K", "V"].forEach((name, i) => {
      const at = y + i * 15;
      parts.push(drawn("text", { x: left - 14, y: at + 11, class: "axis" }, name));
      words.forEach((word, n) => parts.push(box(left + n * cell, at, cell, kindOf(n), word)));
    });
  }
  return parts;
}

function nameOf(x, y, word, kind) {
  const place = { transform: `translate(${x} ${y}) rotate(-48)` };
  return drawn("text", { ...place, class: `name ${kind}-name` }, word);
}

function box(x, y, width, kind, word) {
  return drawn(
    "rect",
    { x: x + 1, y, width: width - 2, height: 13, rx: 2, class: kind },
    drawn("title", {}, word),
  );
}

/** Multiplications of all steps so far, with the cache and without. */
function drawCurve(page, svg, said) {
  const [width, height, left, bottom] = [360, 190, 8, 166];
  const all = page.found.told.length;
  const points = Array.from({ length: all }, (_, n) => costOf(page, n + 1));
  const most = points.at(-1).plain;
  const x = (n) => left + ((width - left - 96) * n) / Math.max(all - 1, 1);
  const y = (value) => bottom - ((bottom - 16) * value) / most;
  const path = (key) =>
    points.map((point, n) => `${n ? "L" : "M"}${x(n)} ${y(point[key])}`).join("");
  const name = (key, text) =>
    drawn("text", { x: x(all - 1) + 8, y: y(points.at(-1)[key]) + 4, class: "axis" }, text);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren(
    drawn("line", { x1: left, x2: x(all - 1), y1: bottom, y2: bottom, class: "rule" }),
    drawn("line", { x1: x(said - 1), x2: x(said - 1), y1: 10, y2: bottom, class: "rule now" }),
    drawn("path", { d: path("plain"), class: "plain" }),
    drawn("path", { d: path("cached"), class: "cached" }),
    name("plain", page.say("cache.without")),
    name("cached", page.say("cache.with")),
    drawn("text", { x: left, y: bottom + 18, class: "axis" }, page.say("cache.words")),
  );
}
