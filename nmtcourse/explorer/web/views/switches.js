// What one may switch off, and what that did, measured.

import { element, marked, rounded } from "../dom.js";
import { visibleChanges, spoken, leaked, onPads, sharpness, sumOf } from "../facts.js";
import { KINDS, START, switchesOf, turned } from "../state.js";
import { OFF, breaking, damage } from "../breaks.js";
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
// Where a part shows what it does even if the words stay: the map of what it governs.
const SHOWN_IN = {
  causal: { view: "attention", kind: "decoder-self", row: -1 },
  padding: { view: "attention", kind: "encoder-self", row: -1 },
  scale: { view: "attention", row: -1 },
  positions: {},
};

export function switchesView(page, effect) {
  const { say } = page;
  const title = element("h2");
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
  const closer = element("summary");
  const more = element("details", { class: "closer", id: "closer" }, closer, padsRow, headsTitle, heads);
  const inner = [title, list, effect.node, reset, more];
  const node = element("section", { class: "card switches", id: "switches" }, ...inner);
  pads.addEventListener("input", () => page.set({ pads: Number(pads.value) }));

  function update() {
    const { state } = page;
    title.textContent = say("switches");
    closer.textContent = say("closer");
    list.replaceChildren(...SIMPLE.map((name) => simpleSwitch(page, name)));
    padsName.textContent = say("pads");
    padsValue.textContent = pads.value = state.pads;
    headsTitle.textContent = say("heads");
    heads.replaceChildren(...KINDS.flatMap((kind) => headRow(page, kind)));
    reset.textContent = say("reset");
    reset.hidden = !page.found.touched && !state.pads;
  }

  return { node, update };
}

export function asTrained() {
  const { off, causal, padding, pads, positions, scale } = START;
  return { off, causal, padding, pads, positions, scale };
}

function simpleSwitch(page, name) {
  const { state, say } = page;
  const off = { ...OFF[name], ...SHOWN_IN[name] };
  if (state.pads) delete off.pads;
  const turn = () => page.set(state[name] ? off : { [name]: true });
  const bite = () => {
    page.set({ ...asTrained(), ...OFF[name], ...SHOWN_IN[name], sentence: sentenceToBreak(page, name) });
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
  const knob = element("i", { "aria-hidden": true });
  const turned = element("button", { ...shape, onclick: turn }, words, knob);
  const label = `${say("bite")}: ${say(`switch.${name}`)}`;
  const see = { id: `bite-${name}`, class: "bite", "aria-label": label, onclick: bite };
  return element("div", { class: "switch-row" }, turned, element("button", see, say("bite")));
}

/** The visitor's own sentence where its translation is good and breaks; else one that does. */
function sentenceToBreak(page, name) {
  const { model, state } = page;
  const typed = state.sentence === page.own && page.isSure;
  if (typed && damage(model, state.sentence, name)) return state.sentence;
  return breaking(model, name) || state.sentence; // where none breaks, the one that is there
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

/** Below the switches: the translation before and now, and what each switch did. */
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
    const [usual, now] = [found.usual, found.now].map(({ text }) => page.joined(text) || say("nothing"));
    const lang = page.model.languages[1];
    const both = element("dl", { class: "both" },
      element("dt", {}, say("effect.before")), element("dd", { lang }, usual),
      element("dt", {}, say("effect.now")), element("dd", { lang }, now));
    const kept = found.touched && usual === now && SIMPLE.find((name) => isOn(state, name));
    const more = kept ? element("p", { class: "kept" }, say(page.model.breaks[kept] === "" ? "effect.none" : "effect.kept")) : "";
    const back = found.touched && page.replaced ? backToOwn(page) : "";
    node.replaceChildren(found.touched ? both : "", element("p", {}, ...marked(overall(page))), more, element("ul", {}, ...lines), back);
  }
  return { node, update };
}

/** What became of the visitor's sentence, and the way back to it. */
function backToOwn(page) {
  const onclick = () => page.set({ sentence: page.replaced });
  const label = page.say("back.own", { sentence: page.replaced });
  return element("p", { class: "own" }, page.say("kept.own"), " ", element("button", { id: "back-own", class: "quiet", onclick }, label));
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
  const [before, after] = [found.usual.text, found.now.text];
  const quoted = (words) => `*${page.joined(words.join(" "), false)}*`;
  const parts = visibleChanges(model, before, after).map(({ was, is }) => {
    if (!is.length) return say("change.lost", { was: quoted(was) });
    if (!was.length) return say("change.added", { is: quoted(is) });
    return say("change", { was: quoted(was), is: quoted(is) });
  });
  const probability = (switches) =>
    Math.exp(sumOf(spoken(model, found.source.ids, found.usual.ids, switches)));
  const length = found.source.ids.length;
  const [p, q] = [probability(switchesOf(START, length)), probability(switchesOf(state, length))];
  const values = { p: percent(p), q: percent(q) };
  if (parts.length) return say("effect.changed", { changes: parts.join(say("comma")), ...values });
  return say(before === after ? "effect.same" : "effect.tokens", values);
}

/** A share as per cent, with enough digits to tell small from nothing. */
export function percent(share) {
  if (share > 0 && share < 0.0005) return "< 0.1\u00a0%";
  return `${rounded(100 * share, share < 0.0995 ? 1 : 0)}\u00a0%`;
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
