// Drawings of a matrix of weights: one large with words on both axes, and small ones to compare.

import { between, drawn, rounded, textWidth } from "../dom.js";

const FONT = 13;
const LEVELS = 12; // shades of a small map: one path each is drawn faster than a thousand cells

/** A small map (T, S): one path for each shade of weight. */
export function smallMap(weights, rows, columns) {
  const paths = Array.from({ length: LEVELS }, () => "");
  weights.forEach((weight, i) => {
    const level = Math.min(Math.ceil(weight * LEVELS) - 1, LEVELS - 1);
    if (level >= 0) paths[level] += `M${i % columns} ${Math.floor(i / columns)}h1v1h-1z`;
  });
  const shades = paths.map((d, level) => {
    return d && drawn("path", { d, class: "weight", "fill-opacity": (level + 0.5) / LEVELS });
  });
  const viewBox = `0 0 ${columns} ${rows}`;
  const shape = {
    viewBox,
    preserveAspectRatio: "none",
    "aria-hidden": true,
    "shape-rendering": "crispEdges",
  };
  return drawn("svg", shape, ...shades.filter(Boolean));
}

/** Where everything of a large map stands, for a width of `room` pixels. */
export function mapLayout(rows, columns, room) {
  const left = Math.ceil(Math.max(...rows.map((word) => textWidth(word, FONT)))) + 12;
  const longest = Math.max(...columns.map((word) => textWidth(word, FONT)));
  const tight = (room - left - 4) / columns.length;
  const upright = tight < 24;
  const overhang = upright ? 4 : Math.ceil(textWidth(columns.at(-1), FONT) * 0.66) + 8;
  const cell = Math.floor(between((room - left - overhang) / columns.length, 14, 36));
  const top = Math.ceil(upright ? longest : longest * 0.75 + 8) + 10;
  const [width, height] = [left + cell * columns.length + overhang, top + cell * rows.length + 4];
  return { left, top, cell, upright, width, height };
}

/** The content of a large map; `shown` = {weights, rows, columns, gold, hidden, row, column}. */
export function largeMap(svg, shown, room, on) {
  const at = mapLayout(shown.rows, shown.columns, room);
  svg.setAttribute("viewBox", `0 0 ${at.width} ${at.height}`);
  svg.setAttribute("width", at.width);
  svg.setAttribute("height", at.height);
  svg.replaceChildren(...axes(shown, at, on), ...cells(shown, at, on), ...outlines(shown, at));
}

function axes(shown, { left, top, cell, upright }, on) {
  const words = shown.rows.map((word, r) => {
    const y = top + (r + 0.5) * cell;
    const place = { x: left - 8, y, "text-anchor": "end", "dominant-baseline": "central" };
    const kind = r === shown.row ? "word chosen" : "word";
    return drawn("text", { ...place, class: kind, onpointerenter: () => on.point(r, -1) }, word);
  });
  const heads = shown.columns.map((word, c) => {
    const [x, y] = [left + (c + 0.5) * cell + (upright ? 0 : -2), top - 8];
    const place = { transform: `translate(${x} ${y}) rotate(${upright ? -90 : -48})` };
    const kind = c === shown.column ? "word chosen" : "word";
    const baseline = upright ? "central" : "auto";
    return drawn("text", { ...place, class: kind, "dominant-baseline": baseline }, word);
  });
  return [...words, ...heads];
}

/** The square of a cell, with corners of a radius. */
function boxAt(r, c, { left, top, cell }, rx) {
  const [x, y] = [left + c * cell + 1, top + r * cell + 1];
  return { x, y, width: cell - 2, height: cell - 2, rx };
}

function cells({ weights, rows, columns, hidden }, frame, on) {
  const nodes = [];
  weights.forEach((weight, i) => {
    const [r, c] = [Math.floor(i / columns.length), i % columns.length];
    if (hidden(r, c)) return;
    const box = boxAt(r, c, frame, 2);
    const title = drawn("title", {}, `${rows[r]} → ${columns[c]}: ${rounded(weight)}`);
    const mind = { onpointerenter: () => on.point(r, c), onclick: () => on.choose(r, c) };
    nodes.push(drawn("rect", { ...box, class: "ground" }));
    nodes.push(drawn("rect", { ...box, class: "weight", "fill-opacity": weight, ...mind }, title));
  });
  return nodes;
}

function outlines({ gold, row, column, columns }, frame) {
  const { left, top, cell } = frame;
  const nodes = [...gold].map((place) => {
    const [r, c] = place.split(",").map(Number);
    const box = boxAt(r, c, frame, 3);
    return drawn("rect", { ...box, class: "gold" });
  });
  if (row >= 0) {
    const band = {
      x: left - 1,
      y: top + row * cell - 1,
      width: cell * columns.length + 2,
      height: cell + 2,
    };
    nodes.push(drawn("rect", { ...band, rx: 4, class: "band" }));
  }
  if (row >= 0 && column >= 0) {
    const box = { x: left + column * cell, y: top + row * cell, width: cell, height: cell, rx: 3 };
    nodes.push(drawn("rect", { ...box, class: "cursor" }));
  }
  return nodes;
}
