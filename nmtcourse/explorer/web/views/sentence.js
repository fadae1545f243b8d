// What one types, as words and ids, and what the model makes of it, word by word.

import { arrowsAmong, counted, element, marked, rounded } from "../dom.js";
import { perplexityOf } from "../confidence.js";
import { mapOf, visibleChanges } from "../facts.js";
import { SPECIALS } from "../specials.js";
import { bare, goesOn, written, writtenText } from "../written.js";
import { lexiconView } from "./lexicon.js";
import { pictureView } from "./picture.js";

const TYPING = 20; // milliseconds without a key before the model starts

export function sentenceView(page) {
  const { say } = page;
  const input = element("textarea", {
    id: "input",
    rows: 1,
    spellcheck: "false",
    autocomplete: "off",
  });
  const label = element("label", { for: "input", id: "input-label" });
  const another = element("button", {
    id: "another",
    class: "quiet",
    onclick: () => page.another(),
  });
  const tries = element("div", { class: "tries", id: "tries", role: "group" });
  const source = chipRow("source");
  const targetLabel = element("h2", { id: "target-label" });
  const text = element("p", { class: "translation", id: "translation", "aria-live": "polite" });
  const target = chipRow("target");
  const facts = element("p", { class: "facts", id: "facts" });
  const hint = element("p", { class: "hint", id: "hint", "aria-live": "polite" });
  const share = element("button", { id: "share", class: "quiet", onclick: () => copyLink(share, say) });
  const top = element("div", { class: "line" }, label, another);
  const picture = pictureView(page, source, target, (count) => show(count));
  const lexicon = lexiconView(page);
  const side = element("div", { class: "side" }, top, input, tries, lexicon.node, hint);
  const buttons = element("div", { class: "picture-head", role: "toolbar", id: "film" }, ...picture.buttons, share);
  arrowsAmong(tries);
  arrowsAmong(buttons); // one stop of the Tab key
  for (const button of [...picture.buttons, share].slice(1)) button.tabIndex = -1;
  const other = element("div", { class: "side result" }, targetLabel, text, facts, buttons);
  const node = element("section", { class: "card sentence", id: "sentence" }, side, other, picture.node);
  let timer;

  input.readOnly = !page.model.source.typed;
  input.addEventListener("input", () => {
    page.moves = true;
    clearTimeout(timer);
    timer = setTimeout(() => page.type(input.value), TYPING);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    clearTimeout(timer);
    page.type(input.value);
  });

  function chipRow(side) {
    const row = element("div", { class: "chips", id: `${side}-chips`, role: "group" });
    const point = (chip) => chip && pointAt(side, Number(chip.dataset.index));
    row.addEventListener("pointerover", (event) => point(event.target.closest(".chip")));
    row.addEventListener("focusin", (event) => point(event.target.closest(".chip")));
    row.addEventListener("pointerleave", () => shade());
    arrowsAmong(row);
    return row;
  }

  /** The words of the other side take the weights of this one: cross-attention, as chosen below. */
  function pointAt(side, index) {
    const { state, found } = page;
    const { rows, columns } = found.trace;
    const map = mapOf(found.trace, "cross", Math.max(state.layer, -1), state.head);
    const width = columns.cross.length;
    if (side === "target") {
      page.pointRow(index);
      picture.show(index);
      return shade({ target: index, source: map.subarray(index * width, (index + 1) * width) });
    }
    const weights = rows.cross.map((_, row) => map[row * width + index]);
    return shade({ source: index, target: weights });
  }

  function shade(by = {}) {
    for (const [side, row] of Object.entries({ source, target })) {
      [...row.children].forEach((chip, i) => {
        const weight = typeof by[side] === "object" ? (by[side][i] ?? 0) : 0;
        chip.style.setProperty("--weight", weight.toFixed(3));
        chip.classList.toggle("pointed", by[side] === i);
      });
    }
  }

  page.shadeRow = (row) => {
    const width = page.found.trace.columns.cross.length;
    const map = mapOf(page.found.trace, "cross", page.state.layer, page.state.head);
    shade({ target: row, source: map.subarray(row * width, (row + 1) * width) });
    picture.follow(row);
  };

  function update() {
    const { state, found, model } = page;
    const [from, to] = model.languages.map((code) => page.languageName(code));
    label.textContent = say("type", { language: from });
    another.textContent = say("another");
    targetLabel.textContent = to;
    if (model.source.meant(input.value) !== state.sentence)
      input.value = model.toy ? writtenText(state.sentence, model.languages[0]) : state.sentence;
    share.textContent = say("share");
    buttons.setAttribute("aria-label", say("film"));
    input.lang = source.lang = model.languages[0];
    text.lang = target.lang = model.languages[1];
    hint.replaceChildren(...marked(hintOf(page)));
    hint.classList.toggle("problem", Boolean(hint.firstChild) && !hesitates(page));
    hint.hidden = !hint.firstChild;
    tries.setAttribute("aria-label", say("tries"));
    const own = page.replaced ? [{ sentence: page.replaced, key: "yours" }] : [];
    tries.replaceChildren(...[...own, ...page.tries].map((one) => tryButton(page, one)));
    source.setAttribute("aria-label", say("tokens", { language: from }));
    target.setAttribute("aria-label", say("tokens", { language: to }));
    source.dataset.key = say("chips.source");
    target.dataset.key = say("chips.target");
    source.replaceChildren(...sourceChips(page));
    target.replaceChildren(...targetChips(page));
    show(found.told.length);
    facts.replaceChildren(...marked(factsOf(page)));
    for (const row of [source, target]) row.firstElementChild?.setAttribute("tabindex", 0);
    const empty = source.children.length < 2;
    if (empty) [text, target, facts].forEach((one) => one.replaceChildren());
    share.tabIndex = empty ? 0 : -1; // alone there, behind the film otherwise
    if (!tries.querySelector('[tabindex="0"]')) tries.firstElementChild?.setAttribute("tabindex", 0);
    lexicon.update();
    picture.update();
  }

  /** The translation as far as its first `count` tokens. */
  function show(count) {
    const { found, model } = page;
    const all = count >= found.now.ids.length;
    const said = all ? found.now.text : model.target.decode(found.now.ids.slice(0, count));
    const isNew = newWords(page);
    const words = written(said, model.languages[1]).flatMap(([gap, word], i) => {
      return [gap, element(isNew.has(i) ? "mark" : "span", {}, word)];
    });
    text.replaceChildren(...words);
  }

  return { node, update };
}

/** The address, which holds the whole state, to the clipboard. */
async function copyLink(button, say) {
  try {
    await navigator.clipboard.writeText(location.href);
    button.textContent = say("share.done");
  } catch {
    prompt(say("share"), location.href); // where a page may not write to the clipboard
  }
}

/** What to do about a sentence that cannot be read, or words that the model does not know. */
function hintOf(page) {
  const { found, model, say, problem } = page;
  if (problem) return say(problem.most ? "error.long" : "error.symbol", problem);
  const { tokens, unknown } = found.source;
  const words = tokens.filter((_, i) => unknown[i]).map(bare);
  if (!words.length) return doubtOf(page);
  const named = words.map((word) => `*${word}*`).join(say("comma"));
  return say("hint", { words: named, V: model.source.tokens.length - SPECIALS });
}

/** Whether all that is to say of a translation is that there may be a mistake. */
function hesitates({ found, model, problem }) {
  const unknown = found.source.unknown.some(Boolean);
  return !problem && !unknown && model.confidence.hesitates(perplexityOf(found.usual));
}

/** What is known of a translation that the model doubts, and what to try in its place. */
function doubtOf({ found, model, say, state, tries }) {
  const { confidence } = model;
  const perplexity = perplexityOf(found.usual);
  if (confidence.hesitates(perplexity)) {
    return say("doubt.some", { value: rounded(perplexity), least: rounded(confidence.least) });
  }
  if (!confidence.doubts(perplexity)) return "";
  const named = confidence.newWords(state.sentence).slice(0, 3).map((word) => `*${word}*`);
  const said = [say("doubt", { value: rounded(perplexity), limit: rounded(confidence.limit) })];
  if (named.length) {
    const values = { n: counted(confidence.sentences), words: named.join(say("comma")) };
    said.push(say("doubt.words", values));
  }
  if (tries.length) said.push(say("doubt.try", { sentence: tries[0].sentence }));
  return said.join(" ");
}

function tryButton(page, { key, sentence }) {
  const pressed = String(page.state.sentence === sentence);
  const choose = () => page.set({ sentence, row: -1, step: -1 });
  const shape = { class: "try", "aria-pressed": pressed, onclick: choose, tabindex: pressed === "true" ? 0 : -1 };
  if (key === "yours") return element("button", { ...shape, id: "yours" }, page.say("try.yours", { sentence }));
  return element("button", shape, key ? page.say(`try.${key}`) : sentence);
}

function sourceChips(page) {
  const { source } = page.found;
  const length = source.tokens.length;
  const pads = Array.from({ length: page.state.pads }, (_, i) => [length + i, "<PAD>", 0, false]);
  const words = source.tokens.map((token, i) => [i, bare(token), source.ids[i], source.unknown[i]]);
  return [...words, ...pads].map(([i, token, id, unknown]) => {
    const kind = (unknown ? " unknown" : special(token)) + (goesOn(source.tokens, i) ? " rest" : "");
    const label = page.say(unknown ? "chip.unknown" : "chip.known", { token, id });
    return chip(i, token, id, { kind, label });
  });
}

function targetChips(page) {
  const { told, logProbs, trace } = page.found;
  const words = trace.rows.cross;
  const tokens = told.map((id) => page.model.target.tokens[id]);
  return told.map((id, i) => {
    const p = rounded(Math.exp(logProbs[i]));
    const label = page.say("chip.said", { token: words[i], id, p });
    const probability = element("small", { class: "p" }, p);
    return chip(i, words[i], id, { kind: ` said${special(words[i])}${goesOn(tokens, i) ? " rest" : ""}`, label }, probability);
  });
}

/** The class of a token that is no word, such as <EOS>. */
function special(token) {
  return /^<.*>$/.test(token) ? " special" : "";
}

/** A token with its id and what else stands below it. */
function chip(i, token, id, { kind, label }, ...more) {
  const shape = { class: `chip${kind}`, tabindex: -1, "data-index": i, role: "img" };
  const number = element("small", { class: "id" }, String(id));
  const said = { "aria-label": label, title: label };
  return element("span", { ...shape, ...said }, element("b", {}, token), number, ...more);
}

/** The numbers of the words of the translation that are others than before. */
function newWords({ found, model }) {
  const seen = visibleChanges(model, found.usual.text, found.now.text);
  return new Set(seen.flatMap(({ is, at }) => is.map((_, i) => at + i)));
}

function factsOf(page) {
  const { found, state, say } = page;
  const greedyText = found.now.greedy.text;
  const same = page.model.readsAs(greedyText, found.now.text);
  const parts = [same ? say("greedy.same", { k: state.beam }) : ""];
  if (!parts[0]) parts[0] = say("greedy.other", { k: state.beam, text: page.joined(greedyText) });
  const reference = page.reference();
  if (reference)
    parts.push(
      say(page.model.readsAs(reference, found.now.text) ? "right" : "wrong", { text: page.joined(reference) }),
    );
  parts.push(say("perplexity", { value: rounded(found.perplexity) }));
  parts.push(say("took", { ms: Math.max(1, Math.round(found.now.milliseconds)) }));
  return parts.join(" · ");
}
