// The words of a toy language, to form a sentence by clicking.

import { arrowsAmong, element } from "../dom.js";
import { SPECIALS } from "../specials.js";

const GROUPS = ["articles", "things", "verbs", "adjectives", "where", "others"]; // as packing.py numbers them

export function lexiconView(page) {
  const { say, model } = page;
  const node = element("details", { class: "lexicon", id: "lexicon" });
  const title = element("summary");
  const groups = element("div", { class: "choice", role: "group" });
  const words = element("div", { class: "tries words", role: "group", lang: model.languages[0] });
  const undo = element("button", { id: "undo", class: "quiet", onclick: () => shorten() });
  node.append(title, groups, words, undo);
  node.addEventListener("toggle", show);
  arrowsAmong(words);
  let [chosen, drawn] = [0, ""];

  function change(sentence) {
    page.moves = true;
    page.type(sentence);
  }

  /** One word more; after a full stop a new sentence begins. */
  function add(word) {
    const { sentence } = page.state;
    change(/[.?。？]$/.test(sentence) ? word : `${sentence} ${word}`);
  }

  function shorten() {
    change(page.state.sentence.split(" ").slice(0, -1).join(" "));
  }

  /** The words of the chosen group, drawn anew only where something changed. */
  function show() {
    const key = `${page.language} ${chosen}`;
    if (!node.open || drawn === key) return;
    drawn = key;
    const button = (text, shape) => element("button", shape, text);
    groups.replaceChildren(...GROUPS.map((name, n) => {
      const choose = () => {
        chosen = n;
        show();
        groups.children[n].focus();
      };
      return button(say(`words.${name}`), { "aria-pressed": String(n === chosen), onclick: choose });
    }));
    const ids = [...model.lexicon].flatMap((group, n) => (Number(group) === chosen ? [n] : []));
    const tokens = ids.map((n) => model.source.tokens[n + SPECIALS]);
    const shape = (word, n) => ({ class: "try", tabindex: n ? -1 : 0, onclick: () => add(word) });
    words.replaceChildren(...tokens.map((word, n) => button(word, shape(word, n))));
  }

  function update() {
    node.hidden = !model.lexicon;
    title.textContent = say("words");
    groups.setAttribute("aria-label", say("words.kinds"));
    words.setAttribute("aria-label", say("words"));
    undo.textContent = `⌫ ${say("words.undo")}`;
    undo.disabled = !page.state.sentence;
    show();
  }

  return { node, update };
}
