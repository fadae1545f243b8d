/** The weights of a payload: base85 text -> gzip -> two planes of bytes -> float16 -> float32. */

const DIGITS =
  "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%.()*+-;,=>?@^_`{|}~";

/**
 * @param {{tensors: [string, number[]][], high: Packed, low: Packed}} packed
 * @typedef {{bytes: number, text: string}} Packed
 * @returns {Promise<Map<string, {shape: number[], values: Float32Array}>>}
 */
export async function unpackWeights(packed) {
  const [high, low] = await Promise.all([inflate(packed.high), inflate(packed.low)]);
  const values = fromHalf(high, low);
  const tensors = new Map();
  let start = 0;
  for (const [name, shape] of packed.tensors) {
    const end = start + shape.reduce((product, size) => product * size, 1);
    tensors.set(name, { shape, values: values.subarray(start, end) });
    start = end;
  }
  return tensors;
}

/** The bytes that a piece of base85 text, made by Python's b85encode, stands for. */
function fromBase85({ bytes, text }) {
  const digit = new Uint8Array(128);
  for (let i = 0; i < DIGITS.length; i++) digit[DIGITS.charCodeAt(i)] = i;
  const view = new DataView(new ArrayBuffer((text.length / 5) * 4));
  for (let i = 0, place = 0; i < text.length; i += 5, place += 4) {
    let number = 0;
    for (let j = i; j < i + 5; j++) number = number * 85 + digit[text.charCodeAt(j)];
    view.setUint32(place, number);
  }
  return new Uint8Array(view.buffer, 0, bytes);
}

async function inflate(packed) {
  const stream = new Blob([fromBase85(packed)]).stream();
  const plain = stream.pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(plain).arrayBuffer());
}

/**
 * float16 numbers, their high and low bytes apart, as float32: exactly.
 *
 * Exponent and fraction moved to the places of a float32 give the number, but with an exponent that
 * is 112 too small; one multiplication mends that, for subnormal numbers too.
 */
function fromHalf(high, low) {
  const bits = new Uint32Array(high.length);
  const values = new Float32Array(bits.buffer);
  for (let i = 0; i < bits.length; i++) bits[i] = (((high[i] & 0x7f) << 8) | low[i]) << 13;
  for (let i = 0; i < bits.length; i++) values[i] *= high[i] & 0x80 ? -(2 ** 112) : 2 ** 112;
  return values;
}
