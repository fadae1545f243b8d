// Which sentences the page offers to try: of each kind the first among the examples.

/** For each language what to look for, in order; the texts of the keys stand in words.js. */
const PATTERNS = {
  de: {
    separable: / (ab|an|auf|aus|ein|fern|zu) \.$/,
    clause: /, dass .* (hat|wird|kann|muss|will) \.$/,
    because: /, weil /,
    perfect: / (hat|haben|ist|sind) .* ge\w+(t|en) \.$/,
    negation: / kein\w* .*\.$/,
    comparison: / als .*\.$/,
    question: /^(was|wer|wo) .*\?$/,
  },
  en: {
    clause: / that .* (will|can|is|does) .*\.$/,
    because: / because /,
    past: / (yesterday|last week|this morning) \.$/,
    negation: / (not|no|cannot) .*\.$/,
    comparison: / than .*\.$/,
    measure: / (two|three) .*\.$/,
    question: /^(what|who|where) .*\?$/,
  },
};
/** A sentence, and the same with a word that no vocabulary of ours has. */
const UNKNOWN = {
  de: { before: "wir suchen gerade unseren Hund .", known: "Hund", word: "Elefanten" },
  en: { before: "she is looking for our dog .", known: "dog", word: "hedgehog" },
};
const SHOWN = 5; // sentences of a corpus whose patterns are not known
const MOST = 14; // words: longer ones do not fit a telephone

export function offered(model) {
  const { examples, languages, toy } = model;
  const short = examples.filter((one) => one.source.split(" ").length <= MOST);
  const patterns = Object.entries((toy && PATTERNS[languages[0]]) || {});
  const tries = patterns.flatMap(([key, pattern]) => {
    const found = short.find((one) => pattern.test(` ${one.source}`) && !taken(key, one.source));
    return found ? [{ key, sentence: found.source }] : [];
  });
  if (!tries.length) {
    const some = short.slice(0, SHOWN).map((one) => one.source);
    some.sort((a, b) => a.length - b.length); // the page opens with the easiest
    tries.push(...some.map((sentence) => ({ sentence })));
  }
  const unknown = unknownOf(model);
  return unknown ? [...tries, { key: "unknown", sentence: unknown.after }] : tries;
}

/** {before, after, word}: a sentence, and the same with an unknown word in it, where that exists. */
export function unknownOf({ languages: [from], source, examples }) {
  const first = examples[0]?.source ?? "";
  const other = { before: first, known: first.split(" ")[0], word: "xyzzy" };
  const isKnown = (sentence) => !source.encode(sentence).unknown.some(Boolean);
  const sentences = [UNKNOWN[from], other].filter(Boolean).map(({ before, known, word }) => {
    return { before, word, after: before.replace(known, word) };
  });
  return sentences.find(({ before, after }) => before && isKnown(before) && !isKnown(after));
}

/** A question is no example of negation, and so on: each sentence shows one thing. */
function taken(key, sentence) {
  return key !== "clause" && key !== "because" && / dass | weil | that | because /.test(sentence);
}

/** A sentence in which a word occurs twice, for the embedding table, where there is one. */
export function repeating({ examples, source }) {
  const twice = ({ source: text }) => {
    const { ids } = source.encode(text);
    return new Set(ids).size < ids.length;
  };
  return examples.find(twice)?.source;
}
