// Is the model sure of its translation?  The rule of `nmtcourse/confidence.py`, in the page.

const WORD = /[\p{L}\p{N}]+/gu;

/**
 * @param {object} [data] what `confidence.json` holds
 * @returns {{limit: number, least: number, sentences: number, doubts(perplexity: number): boolean,
 *   hesitates(perplexity: number): boolean, newWords(text: string): string[]}} without data a rule that never doubts
 */
export function confidenceOf(data) {
  const known = new Set((data?.words ?? "").split(" "));
  const limit = data?.limit ?? Infinity;
  return {
    limit,
    least: data?.least ?? Infinity,
    sentences: data?.trained_on ?? 0,
    doubts: (perplexity) => perplexity > limit,
    hesitates: (perplexity) => perplexity > (data?.least ?? Infinity) && perplexity <= limit,
    newWords: (text) => {
      const words = text.toLowerCase().match(WORD) ?? [];
      return data ? [...new Set(words)].filter((word) => !known.has(word)) : [];
    },
  };
}

/** exp of the mean of -log p of the tokens of a translation, EOS included. */
export function perplexityOf({ ids, logProb }) {
  return Math.exp(-logProb / (ids.length + 1));
}
