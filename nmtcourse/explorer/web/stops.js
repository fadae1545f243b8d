// The stops of the tour: what each needs, shows, asks, and measures for its answer.

import { bestHead, spoken, goldOf, leaked, onPads, sharpness, sumOf } from "./facts.js";
import { START, switchesOf } from "./state.js";
import { rounded, sized } from "./dom.js";
import { winningPath } from "./views/beam.js";
import { costOf } from "./views/cache.js";
import { percent } from "./views/switches.js";

/**
 * A stop: `needs` says whether the model has what it speaks of; `stem` of its notebook, `part` that is lit, `state` to begin with, `after` to go on to
 * when the reader has predicted; `head` chooses the map to show; `values` fill the texts before, `answer` gives {right, values} after.
 * `veil` names what is hidden until then.
 */
export const STOPS = [
  {
    stem: "01_text_to_tensors",
    part: "source-chips",
    needs: (page) => page.unknown,
    state: (page) => ({ sentence: page.unknown.before }),
    values: (page) => ({ V: page.model.source.tokens.length, word: page.unknown.word }),
    after: (page) => ({ sentence: page.unknown.after }),
    answer: (page) => ({ right: 1, values: { text: page.joined(page.found.now.text) } }),
  },
  {
    stem: "02_embeddings",
    part: "shape-source_embedding",
    needs: (page) => page.repeating,
    state: (page) => ({ view: "shapes", sentence: page.repeating }),
    values: ({ model, found }) => {
      const { ids } = found.source;
      const distinct = new Set(ids).size;
      return { D: model.config.d_model, V: model.source.tokens.length, S: ids.length, distinct };
    },
    answer: () => ({ right: 2 }),
  },
  {
    stem: "03_positional_encoding",
    part: "table-box",
    needs: ({ model }) => model.config.positions === "sinusoidal",
    state: (page) => ({ view: "positions", sentence: page.sentence("clause") }),
    after: () => ({ positions: false }),
    answer: (page) => ({ right: kindOfChange(page) }),
    then: "effect",
  },
  {
    stem: "04_scaled_dot_product_attention",
    part: "one",
    state: (page) => ({ view: "attention", sentence: page.sentence("because") }),
    head: goldHead,
    after: () => ({ scale: false }),
    answer({ found, model, state }) {
      const usual = switchesOf(START, found.source.ids.length);
      const [was, is] = [usual, switchesOf(state, found.source.ids.length)].map((switches) => {
        return sharpness(model.trace(found.source.ids, found.read, switches));
      });
      return { right: is > was ? 0 : 1, values: { was: rounded(was), is: rounded(is) } };
    },
  },
  {
    stem: "05_multi_head_attention",
    part: "multiples",
    needs: ({ examples }) => examples.some((one) => one.alignment.length),
    state: (page) => ({ view: "attention", sentence: page.sentence("because") }),
    head: goldHead,
    values: (page) => ({ H: page.model.config.n_heads, ...goldHead(page) }),
    after: (page) => ({ off: `cross.${goldHead(page).layer}.${goldHead(page).head}` }),
    answer(page) {
      const length = page.found.source.ids.length;
      const [p, q] = [switchesOf(START, length), switchesOf(page.state, length)].map((switches) => {
        return percent(probabilityOf(page, switches));
      });
      return { right: kindOfChange(page), values: { p, q } };
    },
  },
  {
    stem: "06_masking",
    part: "one",
    state: (page) => ({
      view: "attention",
      kind: "decoder-self",
      sentence: page.sentence("clause"),
    }),
    after: () => ({ causal: false }),
    answer({ found }) {
      const share = leaked(found.trace);
      return { right: bucket(share, 0.05, 0.25), values: { share: percent(share) } };
    },
  },
  {
    stem: "06_masking",
    part: "one",
    state: (page) => ({
      view: "attention",
      kind: "encoder-self",
      pads: 4,
      sentence: page.sentence("negation"),
    }),
    values: ({ state }) => ({ n: state.pads }),
    after: () => ({ padding: false }),
    answer({ found, state }) {
      const share = onPads(found.trace, "encoder-self", state.pads);
      return { right: bucket(share, 0.05, 0.25), values: { share: percent(share) } };
    },
  },
  {
    stem: "07_the_full_model",
    part: "shapes",
    state: (page) => ({ view: "shapes", sentence: page.sentence("comparison") }),
    values: ({ model }) => ({ D: model.config.d_model, V: model.target.tokens.length }),
    answer: () => ({ right: 0 }),
    then: ({ model }) =>
      `shape-decoder.${model.config.n_decoder_layers - 1}.cross_attention.weights`,
  },
  {
    stem: "08_label_smoothing_and_noam",
    part: "target-chips",
    needs: ({ model }) => model.smoothing > 0,
    state: (page) => ({ sentence: page.sentence("clause") }),
    values: ({ found, model }) => ({ n: found.told.length, right: rounded(1 - model.smoothing) }),
    veil: "probabilities",
    answer({ found }) {
      const sure = found.logProbs.map(Math.exp).sort((a, b) => a - b);
      const count = sure.filter((p) => p > 0.97).length;
      const median = rounded(sure[Math.floor(sure.length / 2)]);
      return { right: bucket(count / sure.length, 0.2, 0.8), values: { count, median } };
    },
  },
  {
    stem: "09_training",
    part: "facts",
    state: (page) => ({ sentence: page.sentence("because") }),
    values: ({ found }) => ({ was: found.perplexity, ppl: rounded(found.perplexity) }),
    after: ({ state }) => ({ sentence: shuffled(state.sentence.split(" ")).join(" ") }),
    answer(page, { was }) {
      const { perplexity, now } = page.found;
      const values = { ppl: rounded(perplexity), text: page.joined(now.text) };
      return { right: bucket(perplexity / was, 1.1, 1.5), values };
    },
  },
  {
    stem: "10_decoding",
    part: "tree-box",
    needs: ({ model }) => model.breaks.wins,
    state: ({ model }) => ({ view: "beam", step: 0, sentence: model.breaks.wins }),
    values: ({ state }) => ({ k: state.beam }),
    after: () => ({ step: -1 }),
    answer(page) {
      const { found } = page;
      const path = winningPath(found.now.beam);
      const ranks = found.now.beam.steps.map(
        (step) => 1 + step.findIndex((one) => path.has(one.id)),
      );
      const way = ranks.filter((rank) => rank > 0);
      const values = { ranks: way.join(" "), ...bothSearches(page).values };
      return { right: way.some((rank) => rank > 1) ? 1 : 0, values };
    },
  },
  {
    stem: "10_decoding",
    part: "tree-box",
    needs: ({ model }) => model.breaks.loses,
    state: ({ model }) => ({ view: "beam", step: 0, sentence: model.breaks.loses }),
    values: (page) => ({ k: page.state.beam, ...bothSearches(page).values }),
    after: () => ({ step: -1 }),
    answer: (page) => ({ right: 1 - Math.sign(bothSearches(page).gain) }),
  },
  {
    stem: "10_decoding",
    part: "cache-box",
    state: (page) => ({ view: "cache", step: 4, sentence: page.sentence("clause") }),
    after: () => ({ step: -1 }),
    answer(page) {
      const { saved, bytes } = costOf(page, page.found.told.length);
      return {
        right: bucket(saved, 0.5, 0.9),
        values: { saved: percent(saved), bytes: sized(bytes) },
      };
    },
  },
];

/** The numbers of the stops that this model can be asked about. */
export function offeredStops(page) {
  if (!page.tries.length) return [];
  return [...STOPS.keys()].filter((i) => !STOPS[i].needs || STOPS[i].needs(page)).map((i) => i + 1);
}

/** What beam search and greedy search find, and how much more probable the beam's is, in nats. */
function bothSearches(page) {
  const { logProb, text, greedy } = page.found.now;
  const other = sumOf(greedy.logProbs);
  const said = { text: page.joined(text), greedy: page.joined(greedy.text) };
  const gain = page.model.readsAs(text, greedy.text) ? 0 : logProb - other;
  return { gain, values: { ...said, a: rounded(logProb), b: rounded(other) } };
}

/** 0 below the first bound, 2 above the second, else 1. */
function bucket(value, low, high) {
  return value < low ? 0 : value > high ? 2 : 1;
}

/** 0 the same words, 1 others, 2 none at all. */
function kindOfChange({ found: { usual, now }, model }) {
  if (!now.text) return 2;
  return model.readsAs(usual.text, now.text) ? 0 : 1;
}

function probabilityOf({ model, found }, switches) {
  return Math.exp(sumOf(spoken(model, found.source.ids, found.usual.ids, switches)));
}

/** The head of cross-attention that follows gold best; without gold the one that chooses most. */
function goldHead({ examples, found }) {
  const { layer, head } = bestHead(found.trace, goldOf(examples, found, "cross"));
  return { layer, head };
}

/** The same words in an order that no grammar has, and always the same: every other one first. */
function shuffled(words) {
  return [...words.filter((_, i) => i % 2), ...words.filter((_, i) => i % 2 === 0)];
}
