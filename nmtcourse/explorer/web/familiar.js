// Does a sentence look like the training text?  The measure of `nmtcourse/familiar.py`, in the page.

const WORD = /[\p{L}\p{N}]+|[^\p{L}\p{N}\s_]/gu;

/**
 * @param {object} [data] what `familiar.json` holds
 * @returns {(text: string) => undefined | {sentences: number, words: string[]}} for a sentence unlike
 *   them how many sentences were read, and its words that are not among theirs
 */
export function familiarWith(data) {
  if (!data) return () => undefined;
  const [counts, firsts] = [data.words, data.firsts].map(unpacked);
  let total = 0;
  for (const count of counts.values()) total += count;
  const rare = (all, sum, word) => Math.log(sum / ((all.get(word) ?? 0) + 0.5));
  return (text) => {
    const words = text.toLowerCase().match(WORD) ?? [];
    if (!words.length) return undefined;
    const parts = [
      words.reduce((sum, word) => sum + rare(counts, total, word), 0) / words.length,
      rare(firsts, data.sentences, words[0]),
      -Math.log(words.length),
    ];
    const unlike = parts.reduce((sum, x, i) => sum + (x - data.mean[i]) / data.deviation[i], 0);
    const fresh = words.filter((word) => !counts.has(word));
    if (unlike <= data.limits[0] && fresh.length / words.length <= data.limits[1]) return undefined;
    const named = fresh.filter((word) => /^[\p{L}\p{N}]/u.test(word));
    return { sentences: data.sentences, words: [...new Set(named)] };
  };
}

function unpacked(groups) {
  const pairs = Object.entries(groups).flatMap(([count, words]) =>
    words.split(" ").map((word) => [word, Number(count)]),
  );
  return new Map(pairs);
}
