// Every text of the page, in the language that the reader chose.

import { ENGLISH } from "./words_en.js";
import { CHINESE } from "./words_zh.js";

export const LANGUAGES = { en: ENGLISH, zh: CHINESE };

/** The language of the state, or that of the browser. */
export function languageOf(chosen) {
  if (chosen in LANGUAGES) return chosen;
  return (navigator.language ?? "").startsWith("zh") ? "zh" : "en";
}

/** The text of a key with `{names}` filled in; a key without a text is a defect. */
export function textOf(language, key, values = {}) {
  const text = LANGUAGES[language][key];
  if (text === undefined) throw new Error(`words_${language}.js has no text for ${key}`);
  return text.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}
