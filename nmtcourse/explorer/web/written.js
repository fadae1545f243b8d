// Text and tokens as one writes them: no spaces before a full stop, a capital at the start, no marks.

const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };
const CLOSES = /^(?:[.,;:?!%)\]}]|'(?:s|m|d|re|ve|ll)$|n't$)/i; // no space stands before it
const OPENS = /[([{]$/; // nor after it
const NAMES = /^(?:tom|mary|john|jane|japan|japanese|english|french|china|chinese|boston|(?:mon|tues|wednes|thurs|fri|satur|sun)days?)$/;
const CJK = /[\u3000-\u303f\u3400-\u9fff\uff00-\uffef]/;

/** The words of a text, each with what stands before it: [gap, word]. */
export function written(text, language, capital = true) {
  const words = text.split(" ").filter(Boolean).map(resolved);
  return words.map((word, i) => {
    const upper = language === "en" && (word === "i" || NAMES.test(word));
    const shown = upper || (!i && capital) ? word.slice(0, 1).toUpperCase() + word.slice(1) : word;
    if (!i) return ["", shown];
    const before = words[i - 1];
    const close = CLOSES.test(word) || OPENS.test(before) || (language === "zh" && (CJK.test(word) || CJK.test(before)));
    return [close ? "" : " ", shown];
  });
}

/** The same as one string. */
export function writtenText(text, language, capital = true) {
  return written(text, language, capital).flat().join("");
}

/** `&amp;` and the like, which some training text holds, as the sign that was meant. */
function resolved(word) {
  return word.replace(/&(amp|lt|gt|quot|apos);/g, (_, name) => ENTITIES[name]);
}

/** A token without the mark that says whether a space stands beside it. */
export function bare(token) {
  return token === "▁" ? "␣" : token.replace(/^▁|@@$/g, "");
}

/**
 * Tokens without their marks, but told apart where two would print alike: "␣" stands before one that
 * begins a word, "…" after one that goes on in the next token.
 */
export function apart(tokens) {
  const printed = tokens.map(bare);
  return printed.map((word, i) => {
    const alike = tokens.some((other, j) => other !== tokens[i] && printed[j] === word);
    if (alike && tokens[i].startsWith("▁")) return `␣${word}`;
    return alike && tokens[i].endsWith("@@") ? `${word}…` : word;
  });
}

/** Whether a token goes on with the word of the token before it. */
export function goesOn(tokens, i) {
  if (i === 0 || i >= tokens.length || /^<.*>$/.test(tokens[i])) return false;
  if (tokens.some((token) => token.startsWith("▁"))) return !tokens[i].startsWith("▁");
  return tokens[i - 1].endsWith("@@");
}
