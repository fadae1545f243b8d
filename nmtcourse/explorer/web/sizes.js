/** What follows from the sizes of a model alone: shapes, multiplications, bytes. */

const FLOAT32 = 4; // bytes

/** The name that nmtlib gives to the module behind each kind of attention. */
export const ATTENTIONS = {
  "encoder-self": (layer) => `encoder.${layer}.self_attention`,
  "decoder-self": (layer) => `decoder.${layer}.self_attention`,
  cross: (layer) => `decoder.${layer}.cross_attention`,
};

/**
 * The name, shape and meaning of each tensor on its way through, in order.
 * @param {object} config of the model
 * @param {number} S tokens of the source, EOS included
 * @param {number} T tokens that the decoder reads, BOS included
 * @returns {{name: string, shape: number[], what: string}[]}
 */
export function shapes(config, S, T) {
  const { d_model: D, n_encoder_layers: E, n_decoder_layers: L, target_vocab_size: V } = config;
  const found = [shape("source", [S], "source ids, EOS last"), ...inputShapes("source", S, D)];
  for (let n = 0; n < E; n++) {
    found.push(...attentionShapes(config, ATTENTIONS["encoder-self"](n), S, S));
    found.push(...feedForwardShapes(config, `encoder.${n}`, S));
  }
  found.push(shape("memory", [S, D], "what the encoder knows of each source token"));
  found.push(shape("target", [T], "target ids, BOS first"), ...inputShapes("target", T, D));
  for (let n = 0; n < L; n++) {
    found.push(...attentionShapes(config, ATTENTIONS["decoder-self"](n), T, T));
    found.push(...attentionShapes(config, ATTENTIONS.cross(n), T, S));
    found.push(...feedForwardShapes(config, `decoder.${n}`, T));
  }
  return [...found, shape("output", [T, V], "logits: a score for each word of the vocabulary")];
}

/**
 * Multiplications of a decoder that reads T tokens one after the other; the encoder, and the keys
 * and values of the source that a cache is started with, are not counted.
 * @param {object} config of the model
 * @param {{source: number, target: number, cached?: boolean}} sizes S and T, EOS and BOS included
 */
export function multiplications(config, { source: S, target: T, cached = true }) {
  const { d_model: D, d_ff: F, n_decoder_layers: L, target_vocab_size: V } = config;
  // One pass over some rows: six maps of D x D, scores and weighted sums, feed-forward, logits.
  const pass = (rows, read) =>
    L * (6 * rows * D * D + 2 * rows * D * (read + S) + 2 * rows * D * F) + rows * D * V;
  let total = 0;
  for (let t = 1; t <= T; t++) total += cached ? pass(1, t) : pass(t, t) + L * 2 * S * D * D;
  return total;
}

/** Bytes of the keys and values that a cache holds after `target` tokens of each hypothesis. */
export function cacheBytes(config, { source, target, beam = 1 }) {
  const { d_model: D, n_decoder_layers: L } = config;
  return 2 * L * D * FLOAT32 * (source + beam * target);
}

function shape(name, sizes, what) {
  return { name, shape: sizes, what };
}

function inputShapes(side, length, D) {
  return [
    shape(`${side}_embedding`, [length, D], `a vector for each ${side} token, times √D`),
    shape(`${side}_positions`, [length, D], "the same with its position added"),
  ];
}

function attentionShapes({ d_model: D, n_heads: H }, name, T, S) {
  const K = D / H;
  return [
    shape(`${name}.query`, [H, T, K], "queries, cut into heads"),
    shape(`${name}.key`, [H, S, K], "keys"),
    shape(`${name}.value`, [H, S, K], "values"),
    shape(`${name}.weights`, [H, T, S], "scores after softmax: each row sums to 1"),
    shape(`${name}.output`, [T, D], "what the heads found, joined and mixed"),
  ];
}

function feedForwardShapes({ d_model: D, d_ff: F }, name, T) {
  return [
    shape(`${name}.feed_forward.fc1`, [T, F], "each position alone, through d_ff dimensions"),
    shape(`${name}.feed_forward.fc2`, [T, D], "and back"),
  ];
}
