// Which sentences the page offers to try: the first of each kind among the examples that ride along.

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
const UNKNOWN = { de: "Elefanten", en: "elephant", zh: "大象", "": "xyzzy" };
const WITH_UNKNOWN = { de: "das Kind sieht einen Elefanten .", en: "the child sees an elephant ." };
// Sentences whose best translation is behind for some steps of the beam.
const UNSURE = { de: [], en: [] };

const MOST = 14; // words: longer ones do not fit a telephone

export function offered({ examples, languages, source }) {
  const [from] = languages;
  const short = examples.filter((one) => one.source.split(" ").length <= MOST);
  const tries = Object.entries(PATTERNS[from] ?? {}).flatMap(([key, pattern]) => {
    const found = short.find((one) => pattern.test(` ${one.source}`) && !taken(key, one.source));
    return found ? [{ key, sentence: found.source }] : [];
  });
  if (!tries.length) tries.push(...short.slice(0, 4).map((one) => ({ key: "example", sentence: one.source })));
  const unknown = WITH_UNKNOWN[from];
  if (unknown && source.encode(unknown).unknown.some(Boolean)) tries.push({ key: "unknown", sentence: unknown });
  return tries;
}

/** A question is no example of negation, and so on: each sentence shows one thing. */
function taken(key, sentence) {
  return key !== "clause" && key !== "because" && / dass | weil | that | because /.test(sentence);
}

export function unknownWord([from]) {
  return UNKNOWN[from] ?? UNKNOWN[""];
}

/** A sentence in which a word occurs twice, for the embedding table. */
export function repeating({ examples }) {
  const twice = examples.find(({ source }) => new Set(source.split(" ")).size < source.split(" ").length);
  return (twice ?? examples[0])?.source ?? "";
}

/** A sentence for the stop about the beam, where one is known for these languages. */
export function unsure({ languages: [from], target }) {
  return target.tokens.length ? (UNSURE[from] ?? [])[0] : undefined;
}
