/** The encoder-decoder Transformer of nmtlib, with switches that take parts of it away. */

import { ATTENTIONS, cacheBytes, multiplications, shapes } from "./sizes.js";
import { EOS, PAD } from "./specials.js";
import { add, attend, layerNorm, linear, relu, sinusoidalTable } from "./tensor.js";
import { confidenceOf } from "./confidence.js";
import { readingOf } from "./text.js";
import { unpackWeights } from "./unpack.js";
import { bare, writtenText } from "./written.js";

const SHOWN = 60; // tokens of a sentence: of more the maps cannot be read, and the page is slow

/**
 * What can be switched off; what is not given is on.
 * @typedef {object} Switches
 * @property {Object<string, boolean>} [heads] `{"cross.1.3": false}`: kind, layer, head from 0
 * @property {boolean} [causal] false: each target position reads all that is given, later words too
 * @property {boolean} [padding] false: PADs, appended up to `padTo`, are attended like words
 * @property {boolean} [positions] false: no position vectors are added
 * @property {boolean} [scale] false: scores are not divided by sqrt(K)
 * @property {number} [padTo] to how many tokens the source is padded, 0 = not at all
 */

/**
 * A model from what `nmtcourse.explorer.packing` wrote.
 * @param {object} payload
 * @returns {Promise<Model>}
 */
export async function loadModel(payload) {
  return new Model(payload, await unpackWeights(payload.weights));
}

export class Model {
  constructor(payload, tensors) {
    // `decoding` is the run's own {beam, lengthPenalty}; `smoothing` that of the labels; `toy` whether
    // its language is a bundled one, whose words `lexicon` groups; `breaks` {switch: sentence that it
    // changes, wins and loses: those of beam against greedy search}; `learns`: whether `learn` has data;
    // `credit` says whose the examples are; `links` [{name, href}] are pages of other models.
    const { weights, source, target, examples, confidence, ...known } = payload;
    Object.assign(this, { breaks: {} }, known);
    this.confidence = confidenceOf(confidence);
    this.rounded = weights.rounded; // whether float32 weights were rounded to float16
    this.source = readingOf(source);
    this.target = readingOf(target);
    this.examples = examples.map(exampleOf).map((one) => this.#asWritten(one));
    this.tensors = tensors;
    this.tables = this.#positionTables();
    this.begun = {}; // see `begin`
  }

  /** An example in natural spelling, where the model reads that as the same tokens. */
  #asWritten(example) {
    const text = writtenText(example.source, this.languages[0]);
    if (this.source.kind === "spacy") return example;
    const same = this.source.encode(text).ids.join() === this.source.encode(example.source).ids.join();
    return same ? { ...example, source: text } : example;
  }

  /** Whether two texts of the target side are the same for a reader: words, not tokens. */
  readsAs(one, other) {
    return this.written(one) === this.written(other);
  }

  /** A text of the target side as one writes it. */
  written(text, capital = true) {
    return writtenText(text, this.languages[1], capital);
  }

  /** Ids of a source sentence with EOS, as `encode` takes them.  Throws where it is too long. */
  read(text) {
    const { ids } = this.source.encode(text);
    const most = Math.min(this.config.max_length - 1, SHOWN);
    if (ids.length > most) {
      const message = `${ids.length} tokens, but this page reads at most ${most}; split it`;
      throw Object.assign(new RangeError(message), { given: ids.length, most });
    }
    return [...ids, EOS];
  }

  /**
   * Source ids, EOS included, to the memory, with the switches that made it.
   * @param {number[]} sourceIds
   * @param {Switches} [switches]
   * @returns {{rows: Float32Array[], ids: number[], maps: Float32Array[][]}} rows (S, D); ids with
   *   the PADs of `padTo`; the weights of each layer and head
   */
  encode(sourceIds, switches = {}) {
    const ids = padded(sourceIds, switches.padTo);
    const mayAttend = keysOf(ids, switches);
    const maps = [];
    const listen = (kind, layer, weights) => (maps[layer] = weights);
    let x = this.#embed("source", ids, 0, switches);
    for (let n = 0; n < this.config.n_encoder_layers; n++) {
      const attention = (y) => {
        const [keys, values] = this.#project(`encoder.${n}.self_attention`, y);
        return this.#attend("encoder-self", n, y, keys, values, mayAttend, switches, listen);
      };
      x = this.#residual(`encoder.${n}`, 0, x, attention);
      x = this.#residual(`encoder.${n}`, 1, x, (y) => this.#feedForward(`encoder.${n}`, y));
    }
    return { rows: this.#lastNorm("encoder_norm", x), ids, maps };
  }

  /**
   * Teacher forcing: all positions at once.
   * @param {{rows: Float32Array[], ids: number[]}} memory what `encode` gave
   * @param {number[]} targetIds BOS first
   * @param {Switches} [switches]
   * @returns {{logits: Float32Array[]}} (T, V): for the token after each
   */
  decode(memory, targetIds, switches = {}, listen = undefined) {
    const mayAttend = switches.causal === false ? () => true : (t, s) => s <= t;
    const mayRead = keysOf(memory.ids, switches);
    let x = this.#embed("target", targetIds, 0, switches);
    for (let n = 0; n < this.config.n_decoder_layers; n++) {
      const self = (y) => {
        const [keys, values] = this.#project(`decoder.${n}.self_attention`, y);
        return this.#attend("decoder-self", n, y, keys, values, mayAttend, switches, listen);
      };
      const cross = (y) => {
        const [keys, values] = this.#project(`decoder.${n}.cross_attention`, memory.rows);
        return this.#attend("cross", n, y, keys, values, mayRead, switches, listen);
      };
      x = this.#residual(`decoder.${n}`, 0, x, self);
      x = this.#residual(`decoder.${n}`, 1, x, cross);
      x = this.#residual(`decoder.${n}`, 2, x, (y) => this.#feedForward(`decoder.${n}`, y));
    }
    return { logits: this.#logits(x) };
  }

  /**
   * Decoding before the first token.  A state is never changed: `step` makes a new one, so that the
   * hypotheses of a beam can share what they have in common.
   */
  start(memory, switches = {}) {
    const layers = Array.from({ length: this.config.n_decoder_layers }, (_, n) => {
      const [keys, values] = this.#project(`decoder.${n}.cross_attention`, memory.rows);
      return { memoryKeys: keys, memoryValues: values, keys: [], values: [] };
    });
    return { memory, switches, layers, ids: [], after: new Map() };
  }

  /** `start`, kept with every step taken from it, so that nothing of a sentence is computed twice. */
  begin(sourceIds, switches = {}) {
    if (sourceIds.join() !== this.begun.sentence) this.begun = { sentence: sourceIds.join(), all: {} };
    const { all } = this.begun;
    return (all[JSON.stringify(switches)] ??= this.start(this.encode(sourceIds, switches), switches));
  }

  /**
   * One token more: logits for the token after it, and the new state; computed once.
   *
   * Without the causal mask the positions before change with each token, so nothing that was
   * computed for them can be kept: all is computed again.
   * @returns {{logits: Float32Array, state: object}}
   */
  step(state, token) {
    if (!state.after.has(token)) state.after.set(token, this.#step(state, token));
    return state.after.get(token);
  }

  #step(state, token) {
    const { memory, switches } = state;
    const ids = [...state.ids, token];
    if (switches.causal === false) {
      const { logits } = this.decode(memory, ids, switches);
      return { logits: logits.at(-1), state: { ...state, ids, after: new Map() } };
    }
    let x = this.#embed("target", [token], state.ids.length, switches);
    const mayRead = keysOf(memory.ids, switches);
    const layers = state.layers.map((layer, n) => {
      let next;
      const self = (y) => {
        const [key, value] = this.#project(`decoder.${n}.self_attention`, y);
        next = { ...layer, keys: [...layer.keys, ...key], values: [...layer.values, ...value] };
        return this.#attend("decoder-self", n, y, next.keys, next.values, () => true, switches);
      };
      const cross = (y) =>
        this.#attend("cross", n, y, layer.memoryKeys, layer.memoryValues, mayRead, switches);
      x = this.#residual(`decoder.${n}`, 0, x, self);
      x = this.#residual(`decoder.${n}`, 1, x, cross);
      x = this.#residual(`decoder.${n}`, 2, x, (y) => this.#feedForward(`decoder.${n}`, y));
      return next;
    });
    return { logits: this.#logits(x)[0], state: { ...state, layers, ids, after: new Map() } };
  }

  /**
   * Everything to draw of a sentence and a translation, which begins with BOS and has no EOS.
   *
   * `maps[kind][layer][head]` is a Float32Array (T * S).  As in nmtlib's `AttentionMaps` a row of
   * the decoder is named after the word that is said there, a column after the word that is read.
   */
  trace(sourceIds, targetIds, switches = {}) {
    const { memory } = this.begin(sourceIds, switches);
    const maps = { "encoder-self": memory.maps, "decoder-self": [], cross: [] };
    const listen = (kind, layer, weights) => (maps[kind][layer] = weights);
    const { logits } = this.decode(memory, targetIds, switches, listen);
    const source = memory.ids.map((id) => bare(this.source.tokens[id]));
    const read = targetIds.map((id) => bare(this.target.tokens[id]));
    const said = [...read.slice(1), this.target.tokens[EOS]];
    return {
      maps,
      rows: { "encoder-self": source, "decoder-self": said, cross: said },
      columns: { "encoder-self": source, "decoder-self": read, cross: source },
      shapes: this.shapes(source.length, read.length),
      logits,
      memory,
    };
  }

  /**
   * What one position goes through in one layer: each step's vectors, by name.
   * @param {"encoder"|"decoder"} side
   * @returns {{enters: Float32Array, steps: object[]}} of each sublayer `{name, normed, output, sum}`,
   *   of an attention also `query`, `keys`, `values`, `mixed` and `weights` (H x S); of the feed-forward
   *   layer `hidden`
   */
  inside(side, layer, row, sourceIds, targetIds, switches = {}) {
    const steps = [];
    const [start, seen] = [`${side}.${layer}`, []];
    this.recorder = (name, values) => {
      if (name.startsWith(`${start}.`)) seen.push(values);
      if (name === start) steps.push(Object.assign({}, ...seen.splice(0), values));
    };
    const memory = this.encode(sourceIds, switches);
    if (side === "decoder") this.decode(memory, targetIds, switches);
    this.recorder = undefined;
    const one = (rows) => rows?.[row];
    return {
      enters: one(steps[0].input),
      steps: steps.map(({ input, normed, output, sum, queries, found, weights, hidden, ...rest }) => {
        const S = weights ? weights[0].length / queries.length : 0;
        const own = weights?.map((map) => map.subarray(row * S, (row + 1) * S));
        const vectors = { normed: one(normed), output: one(output), sum: one(sum) };
        return { ...rest, ...vectors, query: one(queries), mixed: one(found), hidden: one(hidden), weights: own };
      }),
    };
  }

  /** The position table of one side, n rows of D numbers in one Float32Array. */
  positions(n, side = "source") {
    const rows = this.tables[side].slice(0, n);
    const flat = new Float32Array(rows.length * this.config.d_model);
    rows.forEach((row, place) => flat.set(row, place * row.length));
    return flat;
  }

  // What follows from the sizes alone: see sizes.js.
  shapes = (S, T) => shapes(this.config, S, T);
  multiplications = (sizes) => multiplications(this.config, sizes);
  cacheBytes = (sizes) => cacheBytes(this.config, sizes);

  /** A parameter by nmtlib's name; a tied table is stored once. */
  #tensor(name) {
    const { tied } = this.config;
    if (name === "output.weight" && tied !== "none") return this.#tensor("target_embedding.weight");
    if (name === "target_embedding.weight" && tied === "all") name = "source_embedding.weight";
    return this.tensors.get(name).values;
  }

  #linear(name, rows) {
    return linear(rows, this.#tensor(`${name}.weight`), this.#tensor(`${name}.bias`));
  }

  #norm(name, rows) {
    return layerNorm(rows, this.#tensor(`${name}.weight`), this.#tensor(`${name}.bias`));
  }

  #positionTables() {
    const { d_model: D, max_length: length, positions } = this.config;
    if (positions === "sinusoidal") {
      const table = sinusoidalTable(length, D);
      return { source: table, target: table };
    }
    const table = (side) => {
      const values = this.#tensor(`${side}_positions.table`);
      return Array.from({ length }, (_, n) => values.subarray(n * D, (n + 1) * D));
    };
    return { source: table("source"), target: table("target") };
  }

  /** Embeddings times sqrt(D), with their positions, of which the first is number `start`. */
  #embed(side, ids, start, switches) {
    const D = this.config.d_model;
    const table = this.#tensor(`${side}_embedding.weight`);
    const scale = Math.sqrt(D);
    return ids.map((id, n) => {
      const row = table.slice(id * D, (id + 1) * D).map((value) => value * scale);
      if (switches.positions === false) return row;
      const position = this.tables[side][start + n];
      return row.map((value, i) => value + position[i]);
    });
  }

  /** x + sublayer(norm(x)) in a pre-norm model, norm(x + sublayer(x)) in a post-norm model. */
  #residual(layer, number, x, sublayer) {
    const name = `${layer}.residuals.${number}.norm`;
    const pre = this.config.norm === "pre";
    const normed = pre ? this.#norm(name, x) : undefined;
    const output = sublayer(pre ? normed : x);
    const sum = pre ? add(x, output) : this.#norm(name, add(x, output));
    this.recorder?.(layer, { input: x, normed, output, sum });
    return sum;
  }

  #feedForward(layer, x) {
    const hidden = relu(this.#linear(`${layer}.feed_forward.fc1`, x));
    this.recorder?.(`${layer}.feed_forward`, { kind: "feed-forward", hidden });
    return this.#linear(`${layer}.feed_forward.fc2`, hidden);
  }

  /** Keys and values, (S, D) each. */
  #project(attention, rows) {
    return [this.#linear(`${attention}.key`, rows), this.#linear(`${attention}.value`, rows)];
  }

  #attend(kind, layer, x, keys, values, mayAttend, switches, listen) {
    const { n_heads: H, d_model: D } = this.config;
    const name = ATTENTIONS[kind](layer);
    const K = D / H;
    const scale = switches.scale === false ? 1 : 1 / Math.sqrt(K);
    const queries = this.#linear(`${name}.query`, x);
    const { found, weights } = attend(queries, keys, values, H, scale, mayAttend);
    listen?.(kind, layer, weights);
    this.recorder?.(name, { kind, queries, keys, values, found, weights });
    for (let h = 0; h < H; h++) {
      if (switches.heads?.[`${kind}.${layer}.${h}`] !== false) continue;
      for (const row of found) row.fill(0, h * K, (h + 1) * K);
    }
    return this.#linear(`${name}.output`, found);
  }

  /** Pre-norm leaves the residual stream un-normalised, so one more norm closes each stack. */
  #lastNorm(name, rows) {
    return this.config.norm === "pre" ? this.#norm(name, rows) : rows;
  }

  #logits(rows) {
    return this.#linear("output", this.#lastNorm("decoder_norm", rows));
  }
}

/** `[source, target, "0-0 1-2"]` of a payload. */
function exampleOf([source, target, links]) {
  const alignment = links ? links.split(" ").map((link) => link.split("-").map(Number)) : [];
  return { source, target, alignment };
}

/** The ids with PADs behind them, up to `length`. */
function padded(ids, length = 0) {
  return [...ids, ...Array(Math.max(length - ids.length, 0)).fill(PAD)];
}

/** Which keys a query may attend to: all but PADs; with the padding mask off PADs too. */
function keysOf(ids, switches) {
  return switches.padding === false ? () => true : (t, s) => ids[s] !== PAD;
}
