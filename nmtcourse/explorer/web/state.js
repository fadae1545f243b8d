// What the page shows is one flat object, and it stands in the address: a notebook can link to it.

export const KINDS = ["cross", "encoder-self", "decoder-self"];
export const VIEWS = ["attention", "inside", "learn", "beam", "cache", "positions", "shapes"];

export const START = {
  model: "",
  sentence: "",
  view: "attention",
  kind: "cross",
  layer: -1, // -1 is the last
  head: -1, // -1 is the mean of all heads
  lines: false, // lines between words, or a grid
  row: -1, // the word whose weights are shown; -1 is none
  beam: 4,
  alpha: 1,
  step: -1, // of the beam and of the cache; -1 is the last
  moment: 0, // of the small training, and the sentence that it translates; "" is the one above
  lesson: "",
  off: "", // heads, as in "cross.1.3,encoder-self.0.0"
  causal: true,
  padding: true,
  pads: 0,
  positions: true,
  scale: true,
  lang: "",
  theme: "",
  tour: 0,
  embed: false, // nothing but the sentence and the picture: for another page
};

/** What changes a translation; everything else only shows it in another way. */
export const COMPUTED = "model sentence beam alpha off causal padding pads positions scale".split(
  " ",
);

const ALLOWED = {
  view: VIEWS,
  kind: KINDS,
  lang: ["", "en", "zh"],
  theme: ["", "light", "dark"],
};
export const RANGES = {
  layer: [-1, 99],
  head: [-1, 99],
  row: [-1, 999],
  beam: [1, 8],
  alpha: [0, 3],
  step: [-1, 999],
  moment: [0, 99],
  pads: [0, 8],
  tour: [0, 13],
};

/** Search as `nmtlib translate` does, and let each control reach this setting and beyond it. */
export function fitTo({ beam, lengthPenalty }) {
  Object.assign(START, { beam, alpha: lengthPenalty });
  RANGES.beam = [1, Math.max(8, beam)];
  RANGES.alpha = [0, Math.max(2, Math.ceil(lengthPenalty) + 1)];
}

/** The coarsest step of a control from 0 that meets a value: 0.1 for 0.6, 0.01 for 0.65. */
export function stepTo(value) {
  const steps = [0.1, 0.01, 0.001];
  const meets = (step) => Math.abs(value / step - Math.round(value / step)) < 1e-6;
  return steps.find(meets) ?? "any";
}

/** The state that an address names; what it leaves out or spells wrongly is as at the start. */
export function readState(hash) {
  const state = { ...START };
  for (const [name, text] of new URLSearchParams(hash.replace(/^#/, ""))) {
    if (!(name in START)) continue;
    const value = parsed(name, text);
    if (value !== undefined) state[name] = value;
  }
  return state;
}

function parsed(name, text) {
  if (typeof START[name] === "boolean") return text !== "0" && text !== "false";
  if (name in RANGES) {
    const [least, most] = RANGES[name];
    const value = name === "alpha" ? Number(text) : Math.trunc(Number(text));
    return Number.isFinite(value) ? Math.min(Math.max(value, least), most) : undefined;
  }
  return name in ALLOWED && !ALLOWED[name].includes(text) ? undefined : text;
}

/** The address of a state: only what differs from the start. */
export function writeState(state) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(START)) {
    if (state[name] === value) continue;
    query.set(name, String(typeof value === "boolean" ? Number(state[name]) : state[name]));
  }
  return `#${query}`;
}

/** The switches of a state, as the model reads them. */
export function switchesOf(state, length) {
  const heads = {};
  for (const name of state.off.split(",").filter(Boolean)) heads[name] = false;
  const { causal, padding, positions, scale } = state;
  return { heads, causal, padding, positions, scale, padTo: state.pads ? length + state.pads : 0 };
}

/** A list of heads that are off, as the address holds it, with one of them turned over. */
export function turned(off, head) {
  const heads = off.split(",").filter(Boolean);
  const without = heads.filter((name) => name !== head);
  return (without.length < heads.length ? without : [...heads, head]).join(",");
}
