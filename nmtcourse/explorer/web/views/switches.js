// What one may switch off, and what that did, measured.

import { element, marked, rounded } from "../dom.js";
import { changes, spoken, leaked, onPads, sharpness, sumOf } from "../facts.js";
import { KINDS, START, switchesOf, turned } from "../state.js";
import { greedy } from "../search.js";
import { BOS, EOS } from "../specials.js";

export const SIMPLE = ["causal", "padding", "positions", "scale"];
const STEMS = {
  heads: "05_multi_head_attention",
  causal: "06_masking",
  padding: "06_masking",
  positions: "03_positional_encoding",
  scale: "04_scaled_dot_product_attention",
};
const PADS = 4; // appended when the mask goes off and none are there to be seen

export function switchesView(page) {
  const { say } = page;
  const title = element("summary");
  const list = element("div", { class: "switch-list" });
  const pads = element("input", { id: "pads", type: "range", min: 0, max: 8, step: 1 });
  const padsName = element("span");
  const padsValue = element("output", { for: "pads" });
  const padsRow = element("label", { class: "slider", for: "pads" }, padsName, pads, padsValue);
  const headsTitle = element("h3");
  const heads = element("div", { class: "heads", id: "heads" });
  const reset = element("button", {
    id: "reset",
    class: "quiet",
    onclick: () => page.set(asTrained()),
  });
  const open = matchMedia("(min-width: 900px)").matches;
  const inner = [title, list, padsRow, headsTitle, heads, reset];
  const node = element("details", { class: "card switches", id: "switches", open }, ...inner);
  pads.addEventListener("input", () => page.set({ pads: Number(pads.value) }));

  function update() {
    const { state } = page;
    title.textContent = say("switches");
    list.replaceChildren(...SIMPLE.map((name) => simpleSwitch(page, name)));
    padsName.textContent = say("pads");
    padsValue.textContent = pads.value = state.pads;
    headsTitle.textContent = say("heads");
    heads.replaceChildren(...KINDS.flatMap((kind) => headRow(page, kind)));
    reset.textContent = say("reset");
    reset.disabled = !page.found.touched && !state.pads;
  }

  return { node, update };
}

export function asTrained() {
  const { off, causal, padding, pads, positions, scale } = START;
  return { off, causal, padding, pads, positions, scale };
}

function simpleSwitch(page, name) {
  const { state, say } = page;
  const turn = () => {
    const missing = name === "padding" && state.padding && !state.pads;
    page.set({ [name]: !state[name], ...(missing ? { pads: PADS } : {}) });
  };
  const shape = {
    id: `switch-${name}`,
    class: "switch",
    role: "switch",
    "aria-checked": String(state[name]),
  };
  const words = element(
    "span",
    {},
    element("b", {}, say(`switch.${name}`)),
    element("small", {}, say(`switch.${name}.what`)),
  );
  return element(
    "button",
    { ...shape, onclick: turn },
    words,
    element("i", { "aria-hidden": true }),
  );
}

function headRow(page, kind) {
  const maps = page.found.trace.maps[kind];
  const off = page.state.off.split(",");
  return maps.flatMap((layer, l) => [
    element("span", { class: "axis" }, l === 0 ? page.say(`kind.${kind}`) : ""),
    element("span", { class: "axis" }, page.say("layer", { n: l })),
    element("div", {}, ...layer.map((_, h) => headButton(page, `${kind}.${l}.${h}`, off))),
  ]);
}

function headButton(page, name, off) {
  const [kind, layer, head] = name.split(".");
  const label = page.say("head.label", { kind: page.say(`long.${kind}`), layer, head });
  const shape = { class: "head", id: `head-${name}`, title: label, "aria-label": label };
  const checked = { role: "switch", "aria-checked": String(!off.includes(name)) };
  return element(
    "button",
    { ...shape, ...checked, onclick: () => page.set({ off: turned(page.state.off, name) }) },
    head,
  );
}

/** The line under the translation: which words changed, and what each switch did. */
export function effectView(page) {
  const node = element("div", {
    class: "effect",
    id: "effect",
    role: "status",
    "aria-live": "polite",
  });
  function update() {
    const { found, state, say } = page;
    node.hidden = !found.touched && !state.pads;
    if (node.hidden) return node.replaceChildren();
    const lines = Object.keys(STEMS)
      .filter((name) => isOn(state, name))
      .map((name) => lineOf(page, name));
    if (!found.touched)
      lines.push(element("li", {}, ...marked(say("effect.pads", { n: state.pads }))));
    node.replaceChildren(element("p", {}, ...marked(overall(page))), element("ul", {}, ...lines));
  }
  return { node, update };
}

function isOn(state, name) {
  return name === "heads" ? Boolean(state.off) : !state[name];
}

function lineOf(page, name) {
  return element("li", {}, ...marked(MEASURED[name](page)), " ", page.notebook(STEMS[name]));
}

/** Which words changed, and how probable the model now finds what it said as trained. */
function overall(page) {
  const { found, state, say, model } = page;
  const [before, after] = [found.usual.text, found.now.text].map((text) =>
    text.split(" ").filter(Boolean),
  );
  const quoted = (words) => (words.length ? `*${page.joined(words.join(" "))}*` : say("nothing"));
  const parts = changes(before, after).map(({ was, is }) =>
    say("change", { was: quoted(was), is: quoted(is) }),
  );
  const probability = (switches) =>
    Math.exp(sumOf(spoken(model, found.source.ids, found.usual.ids, switches)));
  const length = found.source.ids.length;
  const [p, q] = [probability(switchesOf(START, length)), probability(switchesOf(state, length))];
  const values = { p: percent(p), q: percent(q) };
  return parts.length
    ? say("effect.changed", { changes: parts.join(say("comma")), ...values })
    : say("effect.same", values);
}

/** A share as per cent, with enough digits to tell small from nothing. */
export function percent(share) {
  if (share > 0 && share < 0.0005) return "< 0.1 %";
  return `${rounded(100 * share, share < 0.0995 ? 1 : 0)} %`;
}

const MEASURED = {
  heads({ state, say }) {
    const names = state.off.split(",").map((name) => {
      const [kind, layer, head] = name.split(".");
      return KINDS.includes(kind) ? say("head.label", { kind: say(`long.${kind}`), layer, head }) : name;
    });
    return say("effect.heads", { names: names.join(" · ") });
  },
  causal({ found, model, state, say }) {
    const { ids } = found.usual;
    const guess = (causal) => {
      const switches = { ...switchesOf(state, found.source.ids.length), causal };
      const memory = model.encode(found.source.ids, switches);
      const { logits } = model.decode(memory, [BOS, ...ids], switches);
      return [...ids, EOS].filter((id, row) => largest(logits[row]) === id).length;
    };
    const n = ids.length + 1;
    return say("effect.causal", {
      share: percent(leaked(found.trace)),
      n,
      right: guess(false),
      masked: guess(true),
    });
  },
  padding({ found, state, say }) {
    const share = (kind) => percent(onPads(found.trace, kind, state.pads));
    return say("effect.padding", {
      n: state.pads,
      cross: share("cross"),
      encoder: share("encoder-self"),
    });
  },
  positions(page) {
    const { found, model, state, say } = page;
    const { ids } = found.source;
    const backwards = [...ids.slice(0, -1).reverse(), ids.at(-1)];
    const { text } = greedy(model, backwards, { switches: switchesOf(state, ids.length) });
    return say(text === found.now.greedy.text ? "effect.positions" : "effect.positions.other", {
      text: page.joined(text),
    });
  },
  scale({ found, model, state, say }) {
    const switches = { ...switchesOf(state, found.source.ids.length), scale: true };
    const usual = model.trace(found.source.ids, found.read, switches);
    const values = { was: rounded(sharpness(usual)), is: rounded(sharpness(found.trace)) };
    const times = Math.sqrt(model.config.d_model / model.config.n_heads);
    return say("effect.scale", { ...values, times: rounded(times, 1) });
  },
};

function largest(logits) {
  return logits.indexOf(Math.max(...logits));
}
