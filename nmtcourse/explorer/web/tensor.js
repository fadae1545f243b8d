/**
 * The arithmetic of a Transformer on plain typed arrays.
 *
 * A matrix is an array of rows, each a Float32Array: (T, D) is T rows of D numbers.  Sums run in
 * JavaScript's 64-bit numbers and are stored as 32 bits, so results agree with PyTorch's to a few
 * units in the last place.
 */

const EPSILON = 1e-5; // what torch.nn.LayerNorm adds to the variance

/**
 * y = x Wᵀ + b for each row x.
 * @param {Float32Array[]} rows (T, in)
 * @param {Float32Array} weight (out, in), row by row, as PyTorch stores it
 * @param {Float32Array} bias (out)
 * @returns {Float32Array[]} (T, out)
 */
export function linear(rows, weight, bias) {
  return rows.map((row) => linearRow(row, weight, bias));
}

/** One row of `linear`: eight outputs at a time, so that each input is fetched once for eight. */
function linearRow(x, weight, bias) {
  const n = x.length;
  const y = new Float32Array(bias.length);
  const whole = bias.length - (bias.length % 8);
  for (let o = 0; o < whole; o += 8) {
    let a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0;
    for (let i = 0, w = o * n; i < n; i++, w++) {
      const xi = x[i];
      a += xi * weight[w];
      b += xi * weight[w + n];
      c += xi * weight[w + 2 * n];
      d += xi * weight[w + 3 * n];
      e += xi * weight[w + 4 * n];
      f += xi * weight[w + 5 * n];
      g += xi * weight[w + 6 * n];
      h += xi * weight[w + 7 * n];
    }
    y[o] = a + bias[o];
    y[o + 1] = b + bias[o + 1];
    y[o + 2] = c + bias[o + 2];
    y[o + 3] = d + bias[o + 3];
    y[o + 4] = e + bias[o + 4];
    y[o + 5] = f + bias[o + 5];
    y[o + 6] = g + bias[o + 6];
    y[o + 7] = h + bias[o + 7];
  }
  for (let o = whole; o < y.length; o++) y[o] = dot(x, 0, weight, o * n, n) + bias[o];
  return y;
}

/** The sum of `count` products of x, from place i on, and y, from place j on. */
function dot(x, i, y, j, count) {
  let sum = 0;
  for (let n = 0; n < count; n++) sum += x[i + n] * y[j + n];
  return sum;
}

/** The sum of two matrices of the same shape. */
export function add(left, right) {
  return left.map((row, t) => row.map((value, i) => value + right[t][i]));
}

/** max(x, 0), in place. */
export function relu(rows) {
  for (const row of rows) {
    for (let i = 0; i < row.length; i++) if (row[i] < 0) row[i] = 0;
  }
  return rows;
}

/** Each row with mean 0 and variance 1, times `gain` (D), plus `shift` (D). */
export function layerNorm(rows, gain, shift) {
  return rows.map((row) => {
    const mean = row.reduce((sum, value) => sum + value, 0) / row.length;
    const variance = row.reduce((sum, value) => sum + (value - mean) ** 2, 0) / row.length;
    const factor = 1 / Math.sqrt(variance + EPSILON);
    return row.map((value, i) => (value - mean) * factor * gain[i] + shift[i]);
  });
}

/** Softmax in place; a row of nothing but -Infinity, which may attend to nothing, becomes zeros. */
export function softmax(row) {
  const greatest = row.reduce((a, b) => Math.max(a, b), -Infinity);
  if (greatest === -Infinity) return row.fill(0);
  let total = 0;
  for (let i = 0; i < row.length; i++) total += Math.exp(row[i] - greatest);
  for (let i = 0; i < row.length; i++) row[i] = Math.exp(row[i] - greatest) / total;
  return row;
}

/** Log-probabilities of a row of logits: a new row. */
export function logSoftmax(logits) {
  const greatest = logits.reduce((a, b) => Math.max(a, b), -Infinity);
  let total = 0;
  for (const value of logits) total += Math.exp(value - greatest);
  const shift = greatest + Math.log(total);
  return logits.map((value) => value - shift);
}

/**
 * Scaled dot-product attention with H heads side by side.  Vaswani et al. 2017, eq. 1 and 3.2.2.
 * @param {Float32Array[]} queries (T, D); head h reads the columns hK to (h + 1)K
 * @param {Float32Array[]} keys (S, D)
 * @param {Float32Array[]} values (S, D)
 * @param {number} heads H
 * @param {number} scale what the scores are multiplied by, usually 1 / sqrt(K)
 * @param {(t: number, s: number) => boolean} mayAttend whether query t may look at key s
 * @returns {{found: Float32Array[], weights: Float32Array[]}} found (T, D), weights H x (T * S)
 */
export function attend(queries, keys, values, heads, scale, mayAttend) {
  const [T, S, K] = [queries.length, keys.length, queries[0].length / heads];
  const found = queries.map((query) => new Float32Array(query.length));
  const weights = Array.from({ length: heads }, () => new Float32Array(T * S));
  for (let h = 0; h < heads; h++) {
    for (let t = 0; t < T; t++) {
      const row = weights[h].subarray(t * S, (t + 1) * S);
      for (let s = 0; s < S; s++) {
        const score = dot(queries[t], h * K, keys[s], h * K, K) * scale;
        row[s] = mayAttend(t, s) ? score : -Infinity;
      }
      softmax(row);
      for (let i = h * K; i < (h + 1) * K; i++) {
        let sum = 0;
        for (let s = 0; s < S; s++) sum += row[s] * values[s][i];
        found[t][i] = sum;
      }
    }
  }
  return { found, weights };
}

/**
 * The sinusoidal position table.  Vaswani et al. 2017, 3.5.
 * @returns {Float32Array[]} (length, D): the pair (2i, 2i + 1) holds sin and cos of
 *   position / 10000^(2i/D)
 */
export function sinusoidalTable(length, D) {
  return Array.from({ length }, (_, position) =>
    Float32Array.from({ length: D }, (_, d) => {
      const angle = position * 10000 ** (-(d - (d % 2)) / D);
      return d % 2 ? Math.cos(angle) : Math.sin(angle);
    }),
  );
}
