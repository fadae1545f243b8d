/** Text to ids and back, by the rules of nmtlib's tokenizers. */

import { BOS, EOS, PAD, UNK } from "./specials.js";

const SPACE_MARK = "▁"; // U+2581
const JOIN_MARK = "@@";
// What Python's str.split() takes for white space; JavaScript's \s differs in a few signs.
const SPACES = /[\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/u;

/**
 * One side of a corpus.
 * @param {{tokenizer: {kind: string}, tokens: string[]}} codec as the payload holds it
 * @returns {{kind: string, tokens: string[], typed: boolean,
 *   encode(text: string): {ids: number[], tokens: string[], unknown: boolean[]},
 *   decode(ids: Iterable<number>): string}} ids without BOS and EOS; `typed` is false where only
 *   prepared sentences, or tokens with spaces between them, can be read
 */
export function readingOf({ tokenizer, tokens }) {
  const ids = new Map(tokens.map((token, id) => [token, id]));
  const { cut, join, typed = true } = TOKENIZERS[tokenizer.kind](tokenizer, ids);
  return {
    kind: tokenizer.kind,
    tokens,
    typed,
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

const TOKENIZERS = {
  whitespace: ({ lowercase }) => ({
    cut: (text) => plainWords(lowercase ? text.toLowerCase() : text),
    join: (tokens) => tokens.join(" "),
  }),
};

function splitWords(text) {
  return text.split(SPACES).filter((word) => word);
}

/** The words; a literal <PAD>, <BOS> or <EOS> would command the model. */
function plainWords(text) {
  const found = splitWords(text);
  const reserved = found.find((word) => ["<PAD>", "<BOS>", "<EOS>"].includes(word));
  if (!reserved) return found;
  throw new RangeError(`the text holds ${reserved}, a symbol of the model; remove it`);
}
