/** Text to ids and back, by the rules of nmtlib's tokenizers. */

import { BOS, EOS, PAD, UNK } from "./specials.js";

const SPACE_MARK = "▁"; // U+2581
const JOIN_MARK = "@@"; // ends a piece that goes on in the next token
const LONGEST_WORD = 1000; // letters
// What Python's str.split() takes for white space; JavaScript's \s differs in a few signs.
const SPACES = /[\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/u;

/**
 * One side of a corpus.
 * @param {{tokenizer: {kind: string}, tokens: string[]}} codec as the payload holds it
 * @returns {{kind: string, tokens: string[], typed: boolean,
 *   meant(text: string): string,
 *   encode(text: string): {ids: number[], tokens: string[], unknown: boolean[]},
 *   decode(ids: Iterable<number>): string}} ids without BOS and EOS; `meant` is what a
 *   person types, as the corpus writes it; `typed` is false where only
 *   prepared sentences, or tokens with spaces between them, can be read
 */
export function readingOf({ tokenizer, tokens }) {
  const ids = new Map(tokens.map((token, id) => [token, id]));
  const { cut, join, typed = true } = TOKENIZERS[tokenizer.kind](tokenizer, ids);
  const asMeant = tokenizer.kind === "whitespace" ? spelt(ids) : (word) => word;
  return {
    kind: tokenizer.kind,
    tokens,
    typed,
    meant: (text) => text.split(SPACES).filter(Boolean).flatMap(asMeant).join(" "),
    encode(text) {
      const found = cut(text);
      const numbers = found.map((token) => ids.get(token) ?? UNK);
      return { ids: numbers, tokens: found, unknown: numbers.map((id) => id === UNK) };
    },
    decode(numbers) {
      const all = [...numbers];
      const end = all.indexOf(EOS);
      const said = (end < 0 ? all : all.slice(0, end)).filter((id) => id !== PAD && id !== BOS);
      return join(said.map((id) => tokens[id]));
    },
  };
}

/** For each kind of tokenizer: how text is cut into tokens, and tokens are joined again. */
const TOKENIZERS = {
  whitespace: ({ lowercase }) => ({
    cut: (text) => plainWords(lowercase ? text.toLowerCase() : text),
    join: (tokens) => tokens.join(" "),
  }),
  "subword-marks": ({ pieces, lowercase }) => {
    const known = new Set(pieces);
    const longest = pieces.reduce((most, piece) => Math.max(most, [...piece].length), 0);
    return {
      cut: (text) => cutMarked(plainWords(lowercase ? text.toLowerCase() : text), known, longest),
      join: (tokens) => joinMarked(tokens.join(" ")),
    };
  },
  bpe: ({ merges, lowercase }, ids) => {
    const ranks = new Map(merges.map((pair, rank) => [pair, rank]));
    return {
      cut: (text) => bpeWords(text, lowercase).flatMap((word) => mergePieces(word, ranks, ids)),
      join: joinSpaced,
    };
  },
  // spaCy is a Python program: the page holds its examples as spaCy cut them, and reads no others,
  // but tokens with spaces between them.
  spacy: ({ sentences, lowercase, mark_spaces }) => ({
    cut: (text) => sentences[text.trim()] ?? splitWords(lowercase ? text.toLowerCase() : text),
    join: mark_spaces ? joinSpaced : (tokens) => tokens.join(" "),
    typed: false,
  }),
};

/** A word as the vocabulary has it: apart from its punctuation, with the capitals that are known. */
function spelt(ids) {
  const known = (word) => {
    const capital = word.slice(0, 1).toUpperCase() + word.slice(1).toLowerCase();
    return [word, word.toLowerCase(), capital].find((form) => ids.has(form)) ?? word;
  };
  return (word) => {
    const parts = ids.has(word) ? [word] : word.split(/([.,?!。，？！])/).filter(Boolean);
    return parts.map(known);
  };
}

/** Tokens of which each after a space begins with the mark. */
function joinSpaced(tokens) {
  return tokens.join("").replaceAll(SPACE_MARK, " ").trim();
}

/** The words and the punctuation marks that byte-pair encoding cuts, one by one, into pieces. */
function bpeWords(text, lowercase) {
  if (text.includes(SPACE_MARK)) {
    throw new RangeError(`the text holds "${SPACE_MARK}", which marks spaces inside tokens`);
  }
  const normal = splitWords(text).join(" ");
  const words = (lowercase ? normal.toLowerCase() : normal).split(" ");
  // "▁(" is one piece; to Unicode "▁" is a punctuation mark too, hence (?!▁).
  return words.filter((word) => word).flatMap((word) =>
    (SPACE_MARK + word).split(/(▁?(?!▁)[\p{P}\p{S}])/u).filter((part) => part),
  );
}

/** From characters, replay the merges of a word: the one learnt first is made first. */
function mergePieces(word, ranks, ids) {
  let pieces = [...word].map((letter) => (ids.has(letter) ? letter : "<UNK>"));
  for (;;) {
    const found = pieces.slice(1).map((right, i) => ranks.get(`${pieces[i]} ${right}`) ?? Infinity);
    const first = found.indexOf(Math.min(...found));
    if (first < 0 || found[first] === Infinity) return pieces;
    const joined = pieces[first] + pieces[first + 1];
    pieces = [...pieces.slice(0, first), joined, ...pieces.slice(first + 2)];
  }
}

/** As `SubwordMarkTokenizer.encode`: unknown words freed of punctuation, then cut into pieces. */
function cutMarked(words, known, longest) {
  if (words.some((word) => word.endsWith(JOIN_MARK))) return words;
  const parts = words.flatMap((word) => (known.has(word) ? [word] : setApart(word)));
  return parts.flatMap((part) => cutWord(part, known, longest));
}

/** The word without its punctuation and English ending, and these: "don't." is do, n't, ".". */
function setApart(word) {
  // What Python's \w means, written out: JavaScript's knows no umlauts.
  const parts = word.match(/[\p{L}\p{N}_](?:.*[\p{L}\p{N}_])?|[^\p{L}\p{N}_]/gsu) ?? [];
  return parts.flatMap((part) =>
    part.split(/(?<=[\p{L}\p{N}_])(?=(?:n't|'(?:s|m|d|re|ve|ll))$)/u),
  );
}

/** The word in known pieces, the longest first from the left; the word where no cut fits. */
function cutWord(word, known, longest) {
  if (known.has(word)) return [word];
  const letters = [...word];
  const part = (start, end) => letters.slice(start, end).join("");
  const best = letters.map(() => []); // best[i]: the pieces of word[i:], empty where no cut fits
  for (let start = letters.length - 1; start >= 0; start--) {
    if (known.has(part(start))) {
      best[start] = [part(start)];
      continue;
    }
    for (let end = Math.min(start + longest, letters.length - 1); end > start; end--) {
      const head = part(start, end) + JOIN_MARK;
      if (!known.has(head) || !best[end].length) continue;
      best[start] = [head, ...best[end]];
      break;
    }
  }
  return best[0].length ? best[0] : [word];
}

/** Marked pieces joined with what follows them. */
function joinMarked(text) {
  const joined = text.replaceAll(`${JOIN_MARK} `, "");
  return joined.endsWith(JOIN_MARK) ? joined.slice(0, -JOIN_MARK.length) : joined;
}

function splitWords(text) {
  const found = text.normalize("NFC").split(SPACES).filter((word) => word);
  const long = found.find((word) => [...word].length > LONGEST_WORD);
  if (!long) return found;
  throw new RangeError(`a word of more than ${LONGEST_WORD} letters: ${long.slice(0, 40)}…`);
}

/** The words; a literal <PAD>, <BOS> or <EOS> would command the model. */
function plainWords(text) {
  const found = splitWords(text);
  const reserved = found.find((word) => ["<PAD>", "<BOS>", "<EOS>"].includes(word));
  if (!reserved) return found;
  throw new RangeError(`the text holds ${reserved}, a symbol of the model; remove it`);
}
