// The position table, one of its rows, and how alike it is to the others.

import { between, drawn, element, marked, onArrows, rounded } from "../dom.js";

const FEWEST = 24; // rows, so that the slow waves can be seen
const LEVELS = 8;

export function positionsView(page) {
  const { say } = page;
  const about = element("p", { class: "about" });
  const svg = drawn("svg", { class: "table", id: "table", tabindex: 0, role: "img" });
  const readout = element("p", { class: "readout", "aria-live": "polite", id: "position-readout" });
  const bars = drawn("svg", { class: "alike", role: "img" });
  const title = element("h3");
  const key = element("p", { class: "legend" });
  const scroll = element("div", { class: "scroll", id: "table-box" }, svg);
  const node = element("div", {}, about, scroll, key, readout, title, bars);
  let chosen = 3;

  function update() {
    const { found, model, state } = page;
    const count = Math.min(Math.max(FEWEST, found.source.ids.length), model.config.max_length);
    const table = {
      rows: count,
      D: model.config.d_model,
      values: model.positions(count),
      words: found.source.tokens,
    };
    about.replaceChildren(
      ...marked(say(`about.positions.${model.config.positions}`, { D: table.D })),
    );
    key.replaceChildren(
      ...[
        ["minus", "−1"],
        ["nil", "0"],
        ["plus", "1"],
      ].map(([kind, value]) => {
        return element("span", {}, element("i", { class: `key ${kind}` }), value);
      }),
      element("span", {}, say(state.positions ? "positions.on" : "positions.off")),
    );
    svg.classList.toggle("faded", !state.positions);
    const choose = (row) => {
      chosen = between(row, 0, count - 1);
      table.room = scroll.clientWidth || 640;
      drawTable(page, svg, table, chosen, choose);
      const alike = likeness(table, chosen);
      readout.replaceChildren(...marked(readoutOf(page, table, chosen, alike)));
      title.textContent = say("alike", { n: chosen });
      drawBars(bars, alike, chosen, table);
      bars.setAttribute("aria-label", title.textContent);
    };
    svg.setAttribute("aria-label", say("table.label", { n: count, D: table.D }));
    svg.choose = choose;
    choose(chosen);
  }

  onArrows(svg, (x, y) => svg.choose(chosen + (y || Math.sign(x))));
  return { node, update };
}

/** The table as coloured paths, one for each shade: accent above zero, ink below. */
function drawTable({ say }, svg, { rows, D, values, words, room }, chosen, choose) {
  const [left, top, cell, row] = [92, 20, between((room - 100) / D, 1.5, 6), 13];
  const paths = new Map();
  const most = values.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
  values.forEach((value, i) => {
    const level = Math.ceil((Math.abs(value) / most) * LEVELS);
    const key = `${value < 0 ? "minus" : "plus"} ${level}`;
    const [x, y] = [left + (i % D) * cell, top + Math.floor(i / D) * row];
    paths.set(key, `${paths.get(key) ?? ""}M${x} ${y}h${cell}v${row - 1}h${-cell}z`);
  });
  const shades = [...paths].map(([key, d]) => {
    const [kind, level] = key.split(" ");
    return drawn("path", { d, class: kind, "fill-opacity": level / LEVELS });
  });
  const names = Array.from({ length: rows }, (_, n) => {
    const place = {
      x: left - 8,
      y: top + (n + 0.5) * row,
      "text-anchor": "end",
      "dominant-baseline": "central",
    };
    const label = n < words.length ? `${words[n]}  ${n}` : String(n);
    return drawn("text", { ...place, class: n === chosen ? "word chosen" : "word" }, label);
  });
  const touch = Array.from({ length: rows }, (_, n) => {
    const area = { x: 0, y: top + n * row, width: left + D * cell, height: row };
    return drawn("rect", {
      ...area,
      class: "touch",
      onpointerenter: () => n !== chosen && choose(n),
    });
  });
  const band = drawn("rect", {
    x: left - 2,
    y: top + chosen * row - 2,
    width: D * cell + 4,
    height: row + 3,
    rx: 3,
    class: "band",
  });
  const axis = drawn("text", { x: left, y: 12, class: "axis" }, `${say("dimension")} 0 … ${D - 1}`);
  const [width, height] = [left + D * cell + 4, top + rows * row + 4];
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("width", width);
  svg.setAttribute("height", height);
  svg.replaceChildren(axis, ...shades, ...names, band, ...touch);
}

/** Cosines of one row with each row. */
function likeness({ rows, D, values }, chosen) {
  const at = (n) => values.subarray(n * D, (n + 1) * D);
  const dotted = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
  const norm = (n) => Math.sqrt(dotted(at(n), at(n)));
  return Array.from(
    { length: rows },
    (_, n) => dotted(at(chosen), at(n)) / (norm(chosen) * norm(n)),
  );
}

function readoutOf({ say }, { D, rows }, chosen, alike) {
  const far = alike[chosen < rows / 2 ? rows - 1 : 0];
  const near = alike[chosen ? chosen - 1 : 1];
  return say("position", { n: chosen, D, near: rounded(near), far: rounded(far) });
}

function drawBars(svg, alike, chosen, { words, room }) {
  const [step, base, tall] = [Math.min(room / alike.length, 34), 84, 74];
  const every = Math.ceil(20 / step); // bars to a number
  const low = Math.min(0, ...alike);
  const bars = alike.flatMap((value, n) => {
    const height = Math.max(1, Math.abs(value) * tall);
    const y = value < 0 ? base : base - height;
    const box = {
      x: n * step + 1,
      y,
      width: step * 0.75,
      height,
      rx: 2,
      class: n === chosen ? "bar own" : "bar",
    };
    const label = {
      x: n * step + 1 + step * 0.375,
      y: base + (low < 0 ? 30 : 16),
      "text-anchor": "middle",
      class: "axis",
    };
    const title = drawn("title", {}, `${words[n] ?? n}: ${rounded(value)}`);
    return [drawn("rect", box, title), n % every ? "" : drawn("text", label, String(n))];
  });
  const [width, height] = [alike.length * step, base + (low < 0 ? 40 : 24)];
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("width", width);
  svg.setAttribute("height", height);
  svg.replaceChildren(...bars.filter(Boolean));
}
