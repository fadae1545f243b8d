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
// Sentences whose best translation is behind for some steps of the beam.
const UNSURE = {
  de: "die Nachbarin glaubt , dass ihr Auto neben dem Haus ist .",
  en: "an old teacher is drinking water .",
};

const MOST = 14; // words: longer ones do not fit a telephone

export function offered({ examples, languages, source }) {
  const [from] = languages;
  const short = examples.filter((one) => one.source.split(" ").length <= MOST);
  const tries = Object.entries(PATTERNS[from] ?? {}).flatMap(([key, pattern]) => {
    const found = short.find((one) => pattern.test(` ${one.source}`) && !taken(key, one.source));
    return found ? [{ key, sentence: found.source }] : [];
  });
  if (!tries.length)
    tries.push(...short.slice(0, 4).map((one) => ({ key: "example", sentence: one.source })));
  const { after } = unknownOf({ languages, source }, tries);
  if (source.encode(after).unknown.some(Boolean)) tries.push({ key: "unknown", sentence: after });
  return tries;
}

/** {before, after, word}: a sentence, and the same with an unknown word in it. */
export function unknownOf({ languages: [from] }, tries) {
  const first = tries[0]?.sentence ?? "";
  const { before, known, word } = UNKNOWN[from] ?? {
    before: first,
    known: first.split(" ")[0],
    word: "xyzzy",
  };
  return { before, word, after: before.replace(known, word) };
}

/** A question is no example of negation, and so on: each sentence shows one thing. */
function taken(key, sentence) {
  return key !== "clause" && key !== "because" && / dass | weil | that | because /.test(sentence);
}

/** A sentence in which a word occurs twice, for the embedding table. */
export function repeating({ examples }) {
  const twice = examples.find(
    ({ source }) => new Set(source.split(" ")).size < source.split(" ").length,
  );
  return (twice ?? examples[0])?.source ?? "";
}

/** A sentence for the stop about the beam, where one is known for these languages. */
export function unsure({ languages: [from], source }) {
  const sentence = UNSURE[from];
  return sentence && !source.encode(sentence).unknown.some(Boolean) ? sentence : undefined;
}
