// The shape of each tensor on its way from the ids to the logits.

import { element, marked } from "../dom.js";

export function shapesView(page) {
  const { say } = page;
  const about = element("p", { class: "about" });
  const list = element("div", { class: "shapes", id: "shapes" });
  const node = element("div", {}, about, list);

  function update() {
    const { found, model } = page;
    const [S, T] = [found.trace.rows["encoder-self"].length, found.told.length];
    const { d_model: D, n_heads: H, d_ff: F, target_vocab_size: V } = model.config;
    about.replaceChildren(...marked(say("about.shapes", { S, T, D, H, K: D / H, F, V })));
    const { shapes } = found.trace;
    const border = shapes.findIndex(({ name }) => name === "target");
    list.replaceChildren(
      column(page, say("encoder"), grouped(shapes.slice(0, border))),
      column(page, say("decoder"), grouped(shapes.slice(border))),
    );
  }

  return { node, update };
}

/** Consecutive tensors of one part of the model: [[part, tensors], …]. */
function grouped(shapes) {
  const groups = [];
  for (const one of shapes) {
    const part = one.name.match(/^(encoder|decoder)\.(\d+)\.(\w+)\./);
    const name = part ? `${part[3]} ${part[2]}` : "";
    if (groups.at(-1)?.[0] === name) groups.at(-1)[1].push(one);
    else groups.push([name, [one]]);
  }
  return groups;
}

/** The parts of one side. All layers have the same shapes: the last one is shown, the others are folded. */
function column(page, title, groups) {
  const layerOf = ([name]) => (name ? Number(name.split(" ")[1]) : undefined);
  const last = Math.max(...groups.map(layerOf).filter(Number.isFinite));
  const earlier = groups.filter((group) => layerOf(group) < last);
  const shown = groups.filter((group) => !earlier.includes(group));
  const parts = shown.map((group) => groupOf(page, group));
  if (earlier.length) parts.splice(1, 0, folded(page, earlier, last));
  return element("div", { class: "shape-column" }, element("h3", {}, title), ...parts);
}

function folded(page, groups, last) {
  const names = [...Array(last).keys()].join(page.say("comma"));
  const summary = element("summary", {}, page.say("shapes.same", { names }));
  return element("details", { class: "same-shapes" }, summary, ...groups.map((group) => groupOf(page, group)));
}

function groupOf(page, [name, tensors]) {
  const [kind, layer] = name.split(" ");
  const caption = name && element("h4", {}, page.say(`part.${kind}`, { n: layer }));
  const rows = tensors.map((one) => tensorRow(page, one));
  return element("div", { class: name ? "group" : "group plain" }, caption || "", ...rows);
}

function tensorRow({ say }, { name, shape }) {
  const short = name.split(".").at(-1);
  const key = name === "output" ? "logits" : short;
  const size = element("code", {}, `(${shape.join(", ")})`);
  const what = element("span", {}, ...marked(say(`shape.${key}`)));
  return element(
    "div",
    { class: "tensor", id: `shape-${name}`, title: name },
    what,
    picture(shape),
    size,
  );
}

/** The last two dimensions as a box, on a logarithmic scale; heads stand behind each other. */
function picture(shape) {
  const [rows, columns] = [shape.at(-2) ?? 1, shape.at(-1)];
  const long = (n) => Math.round(5 + 7.5 * Math.log2(n));
  const style = `width: ${long(columns)}px; height: ${Math.round(3 + 3.2 * Math.log2(rows + 1))}px`;
  const deep = shape.length === 3 ? "box deep" : "box";
  return element("i", { class: deep, style, "aria-hidden": true });
}
