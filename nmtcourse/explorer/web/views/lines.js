// The weights of a map as lines between words: at the left what is attended to, at the right what attends.

import { between, drawn, textWidth } from "../dom.js";

const FAINT = 0.04; // a weight below it has no line
const ROW = 26;
const TOP = 22;

/** The line of a weight from one place to another; null where the weight is too small. */
export function strand([x, y], [toX, toY], weight, kind) {
  if (weight < FAINT) return null;
  const middle = (x + toX) / 2;
  const d = `M${x} ${y}C${middle} ${y} ${middle} ${toY} ${toX} ${toY}`;
  return drawn("path", { d, class: kind, "stroke-width": (0.5 + 7 * weight).toFixed(2) });
}

/** The lines of a map for a width of `room` pixels; `shown` as for `largeMap`. */
export function lineMap(svg, shown, room, on, [from, to]) {
  const at = layout(shown, room, [from, to]);
  const title = (text, x, anchor) => drawn("text", { x, y: 12, class: "axis", "text-anchor": anchor }, text);
  svg.setAttribute("viewBox", `0 0 ${at.width} ${at.height}`);
  svg.setAttribute("width", at.width);
  svg.setAttribute("height", at.height);
  svg.replaceChildren(
    title(from, at.left, "end"),
    title(to, at.right, "start"),
    ...strands(shown, at),
    ...words(shown.columns, shown.column, at.column, { x: at.left, edge: 0, "text-anchor": "end" }, (c) => [shown.row, c], on),
    ...words(shown.rows, shown.row, at.row, { x: at.right, edge: at.right }, (r) => [r, -1], on),
  );
}

/** Where both columns of words stand; the shorter one in the middle of the longer one. */
function layout({ rows, columns }, room, [from, to]) {
  const longest = (texts) => Math.ceil(Math.max(...texts.map((text) => textWidth(text, 13))));
  const [left, wide] = [longest([...columns, from]), longest([...rows, to])];
  const right = left + between(room - left - wide - 4, 80, 420);
  const most = Math.max(rows.length, columns.length);
  const place = (count) => (n) => TOP + (n + 0.5 + (most - count) / 2) * ROW;
  const size = { width: right + wide + 4, height: TOP + most * ROW };
  return { left, right, row: place(rows.length), column: place(columns.length), ...size };
}

function strands({ weights, rows, columns, gold, hidden, row, column }, at) {
  const parts = [[], [], []]; // the chosen word's lines lie over those of the others
  rows.forEach((_, r) => columns.forEach((_, c) => {
    if (hidden(r, c)) return;
    const [start, end] = [[at.left + 8, at.column(c)], [at.right - 8, at.row(r)]];
    const now = r === row && (column < 0 || c === column);
    parts[now ? 1 : 0].push(strand(start, end, weights[r * columns.length + c], now ? "line now" : "line"));
    if (gold.has(`${r},${c}`)) parts[2].push(strand(start, end, 0.1, "goldline"));
  }));
  return parts.flat().filter(Boolean);
}

/** The words of one side, each with room around it to point at. */
function words(texts, chosen, y, { edge, ...place }, cell, on) {
  return texts.flatMap((text, n) => {
    const mind = { onpointerenter: () => on.point(...cell(n)), onclick: () => on.choose(...cell(n)) };
    const box = { x: edge, y: y(n) - ROW / 2, width: Math.ceil(textWidth(text, 13)) + place.x - edge, height: ROW };
    const kind = n === chosen ? "word chosen" : "word";
    const spot = { ...place, y: y(n), "dominant-baseline": "central", class: kind };
    return [drawn("text", spot, text), drawn("rect", { ...box, class: "touch", ...mind })];
  });
}
