/** Greedy and beam search by the rules of `nmtlib.inference.search`, with every step recorded. */

import { BOS, EOS, PAD, UNK } from "./specials.js";
import { logSoftmax } from "./tensor.js";
import { bare } from "./written.js";

const NEVER_GENERATED = [PAD, BOS, UNK]; // a translation is made of words
const PRUNED_SHOWN = 4; // of each step of a beam search

/**
 * Say the most probable next token until EOS.
 * @param {Model} model
 * @param {string|number[]} source a sentence, or its ids with EOS
 * @param {{switches?: Switches, maxLength?: number}} [options] maxLength in words, without EOS
 * @returns {{ids: number[], tokens: string[], text: string, logProbs: number[],
 *   milliseconds: number}} ids and tokens without EOS; logProbs with that of EOS, which is last
 */
export function greedy(model, source, { switches = {}, maxLength } = {}) {
  const began = performance.now();
  const ids = [];
  const logProbs = [];
  const sourceIds = idsOf(model, source);
  if (sourceIds.length) {
    const limit = lengthLimit(model, sourceIds, maxLength);
    let state = model.begin(sourceIds, switches);
    for (let token = BOS; token !== EOS; ) {
      const next = model.step(state, token);
      state = next.state;
      const logp = allowed(next, logProbs.length + 1, limit);
      token = argmax(logp);
      logProbs.push(logp[token]);
      if (token !== EOS) ids.push(token);
    }
  }
  const tokens = ids.map((id) => model.target.tokens[id]);
  const milliseconds = performance.now() - began;
  return { ids, tokens, text: model.target.decode(ids), logProbs, milliseconds };
}

/**
 * Keep the `beam` best beginnings; rank what ends by log-probability / length norm.
 *
 * `steps[n]` holds the nodes of step n: those that go on (kept), those that end (finished), and the
 * best of those that do not (pruned); `parent` is the id of a node of the step before, 0 for BOS.
 * @typedef {{id: number, parent: number, token: string, tokenId: number, tokenLogProb: number,
 *   logProb: number, score: number, state: "kept"|"finished"|"pruned"}} Node
 * @typedef {{ids: number[], tokens: string[], text: string, logProb: number, score: number,
 *   node: number}} Hypothesis
 * @param {Model} model
 * @param {string|number[]} source a sentence, or its ids with EOS
 * @param {{beam?: number, lengthPenalty?: number, switches?: Switches, maxLength?: number}} [options]
 * @returns {{best: Hypothesis, finished: Hypothesis[], steps: Node[][], milliseconds: number}}
 *   finished: the `beam` best, best first
 */
export function beam(model, source, options = {}) {
  const { beam: width, lengthPenalty } = { ...model.decoding, ...options };
  const { switches = {}, maxLength } = options;
  const began = performance.now();
  const sourceIds = idsOf(model, source);
  if (!sourceIds.length) return nothingToSay(began);
  const limit = lengthLimit(model, sourceIds, maxLength);
  const record = new Record(model, width, lengthPenalty);
  const start = model.begin(sourceIds, switches);
  let open = [{ id: 0, ids: [BOS], logProb: 0, state: start }];
  for (let length = 1; length <= limit && open.length; length++) {
    // One of the words is EOS, so that of 2 * width candidates at least `width` go on.
    open = record.step(expand(model, open, length, limit, 2 * width), length);
    if (record.decided(open, length, limit)) break;
  }
  const finished = record.finished;
  return { best: finished[0], finished, steps: record.steps, milliseconds: elapsed(began) };
}

/** What a log-probability is divided by; `length` counts EOS.  Wu et al. 2016, eq. 14. */
export function lengthNorm(length, penalty) {
  return ((5 + length) / 6) ** penalty;
}

/** How many tokens, EOS included, a translation may have: as nmtlib's `length_limits`. */
export function lengthLimit(model, sourceIds, maxLength) {
  const limit = maxLength === undefined ? 2 * sourceIds.length + 10 : maxLength + 1;
  return Math.min(limit, model.config.max_length);
}

/** Ids with EOS; none for an empty sentence, whose translation is empty. */
function idsOf(model, source) {
  if (Array.isArray(source)) return source;
  const ids = model.read(source);
  return ids.length > 1 ? ids : [];
}

/** Log-probabilities of token number `length`; -Infinity where it may not be said. */
function allowed(next, length, limit) {
  next.logProbs ??= logSoftmax(next.logits); // both searches come here
  const logp = next.logProbs.slice();
  for (const word of NEVER_GENERATED) logp[word] = -Infinity;
  if (length < limit) return logp;
  return logp.map((value, word) => (word === EOS ? value : -Infinity)); // only EOS is left
}

function argmax(row) {
  let best = 0;
  for (let i = 1; i < row.length; i++) if (row[i] > row[best]) best = i;
  return best;
}

/** The `count` best beginnings with one word more, the most probable first. */
function expand(model, open, length, limit, count) {
  const grown = open.flatMap((parent) => {
    const next = model.step(parent.state, parent.ids.at(-1));
    const logp = allowed(next, length, limit);
    return best(logp, count).map((tokenId) => {
      const tokenLogProb = logp[tokenId];
      // Sums are float32, as in PyTorch, so that what is equal there is equal here.
      const logProb = Math.fround(parent.logProb + tokenLogProb);
      return { parent, tokenId, tokenLogProb, logProb, state: next.state };
    });
  });
  return grown.sort((a, b) => b.logProb - a.logProb).slice(0, count);
}

/** The places of the `count` greatest of some values, greatest first, without those of -Infinity. */
function best(values, count) {
  const places = [];
  for (let i = 0; i < values.length; i++) {
    if (!(values[i] > (places.length < count ? -Infinity : values[places.at(-1)]))) continue;
    let rank = places.length;
    while (rank > 0 && values[places[rank - 1]] < values[i]) rank -= 1;
    places.splice(rank, 0, i);
    places.length = Math.min(places.length, count);
  }
  return places;
}

/** The growing tree of a search, and the hypotheses that have ended. */
class Record {
  constructor(model, width, penalty) {
    Object.assign(this, { model, width, penalty });
    this.steps = [];
    this.finished = [];
    this.ended = 0; // those that fell out of the best `width` count too
    this.lastId = 0;
  }

  /** Sort candidates, best first, into finished, kept and pruned; returns the kept. */
  step(candidates, length) {
    const nodes = [];
    const kept = [];
    let pruned = 0;
    candidates.forEach((candidate, rank) => {
      const ends = candidate.tokenId === EOS;
      const node = this.#node(candidate, length);
      if (ends && rank < this.width) this.#finish(candidate, node);
      else if (!ends && kept.length < this.width) kept.push(this.#keep(candidate, node));
      else if (pruned++ >= PRUNED_SHOWN) return;
      nodes.push(node);
    });
    this.steps.push(nodes);
    this.finished.sort((a, b) => b.score - a.score).splice(this.width);
    return kept;
  }

  /** Whether enough have ended, or no open one can still become the best. */
  decided(open, length, limit) {
    if (this.ended >= this.width || !open.length) return true;
    // A log-probability only falls, but the norm may rise or fall with the length: the best score
    // that can still be reached lies at the next length or at the greatest.
    const norms = [lengthNorm(limit, this.penalty), lengthNorm(length + 1, this.penalty)];
    const reachable = Math.max(...norms.map((norm) => open[0].logProb / norm));
    return this.finished.length > 0 && this.finished[0].score >= reachable;
  }

  #node({ parent, tokenId, tokenLogProb, logProb }, length) {
    this.lastId += 1;
    const score = logProb / lengthNorm(length, this.penalty);
    const token = bare(this.model.target.tokens[tokenId]);
    const known = { id: this.lastId, parent: parent.id, token, tokenId, tokenLogProb, logProb };
    return { ...known, score, state: "pruned" };
  }

  #keep({ parent, tokenId, logProb, state }, node) {
    node.state = "kept";
    return { id: node.id, ids: [...parent.ids, tokenId], logProb, state };
  }

  #finish({ parent, logProb }, node) {
    node.state = "finished";
    this.ended += 1;
    const ids = parent.ids.slice(1);
    const tokens = ids.map((id) => this.model.target.tokens[id]);
    const text = this.model.target.decode(ids);
    this.finished.push({ ids, tokens, text, logProb, score: node.score, node: node.id });
  }
}

function nothingToSay(began) {
  const best = { ids: [], tokens: [], text: "", logProb: 0, score: 0, node: 0 };
  return { best, finished: [best], steps: [], milliseconds: elapsed(began) };
}

function elapsed(began) {
  return performance.now() - began;
}
