// What all parts of the page share: the model, the state, what was found, and how it changes.

import { perplexityOf } from "./confidence.js";
import { element } from "./dom.js";
import { offered, repeating, unknownOf } from "./examples.js";
import { findAll } from "./facts.js";
import { COMPUTED, START, VIEWS, fitTo, readState, writeState } from "./state.js";
import { languageOf, textOf } from "./words.js";

export class Page {
  /** `render` shows the page again; it is called after each change. */
  constructor(model, notebooks, render) {
    this.model = model;
    this.examples = model.examples;
    this.notebooks = notebooks ?? "";
    this.render = render;
    this.tries = offered(model);
    this.unknown = unknownOf(model);
    this.repeating = repeating(model);
    fitTo(model.decoding);
    this.state = readState(location.hash);
    this.state.sentence = model.source.meant(this.state.sentence) || this.sentence("because");
    this.own = this.isOffered(this.state.sentence) ? "" : this.state.sentence; // what the visitor typed last
    this.views = VIEWS.filter((view) => view !== "learn" || model.learns);
    this.problem = undefined;
    this.moves = false; // whether a new translation is played word by word
    this.say = (key, values) => textOf(this.language, key, values);
    this.shadeRow = () => {}; // words above take the weights of a row of cross-attention
    this.pointRow = () => {}; // and the map below shows the row of a word above
    this.allow();
    this.compute();
  }

  get language() {
    return languageOf(this.state.lang);
  }

  /** A link to a notebook, or its name alone where the page does not know where it lies. */
  notebook(stem) {
    const name = this.say("notebook", { number: stem.slice(0, 2) });
    const href = this.notebooks.replace("{stem}", stem);
    return href
      ? element("a", { href, target: "_blank", rel: "noopener" }, name)
      : element("span", {}, name);
  }

  /** The name of a language, in the language of the page. */
  languageName(code) {
    if (!code) return this.say("text");
    return new Intl.DisplayNames([this.language], { type: "language", fallback: "code" }).of(code);
  }

  /** A translation as one writes it. */
  joined(text, capital = true) {
    return this.model.written(text, capital);
  }

  /** What the corpus has for the sentence, where it rides along. */
  reference() {
    return this.examples.find((one) => one.source === this.state.sentence)?.target;
  }

  /** The sentence of the first of these kinds that there is. */
  sentence(...keys) {
    const found = keys.map((key) => this.tries.find((one) => one.key === key)).find(Boolean);
    return (found ?? this.tries[0])?.sentence ?? "";
  }

  /** Whether a sentence is one that the page itself can open. */
  isOffered(sentence) {
    const { examples, breaks } = this.model;
    const offered = [...this.tries, ...examples.map((one) => ({ sentence: one.source }))];
    return offered.some((one) => one.sentence === sentence) || Object.values(breaks).includes(sentence);
  }

  /** The visitor's sentence, while another one stands in its place; "" otherwise. */
  get replaced() {
    return this.own === this.state.sentence ? "" : this.own;
  }

  /** Show what the visitor types, and remember it: a switch, a button or the tour may open another sentence. */
  type(sentence) {
    this.own = this.model.source.meant(sentence);
    this.set({ sentence });
  }

  /** Whether the model reads the sentence whole, and does not doubt its translation. */
  get isSure() {
    const { source, usual } = this.found;
    if (this.problem || !usual.ids.length || source.unknown.some(Boolean)) return false;
    return !this.model.confidence.doubts(perplexityOf(usual));
  }

  another() {
    const { examples } = this;
    if (examples.length)
      this.set({ sentence: examples[Math.floor(Math.random() * examples.length)].source });
  }

  /** Change the state, compute what depends on it, and show it. */
  set(changes) {
    if ("sentence" in changes) changes.sentence = this.model.source.meant(changes.sentence);
    const other = "sentence" in changes && changes.sentence !== this.state.sentence;
    Object.assign(this.state, other ? { row: -1, step: -1 } : {}, changes);
    this.allow();
    if (COMPUTED.some((name) => name in changes)) this.compute();
    this.remember();
    this.render();
  }

  /** A view that this page does not have is the first. */
  allow() {
    if (!this.views.includes(this.state.view)) this.state.view = START.view;
  }

  /** Change what stands in the address, without drawing again. */
  remember(changes = {}) {
    Object.assign(this.state, changes);
    try {
      history.replaceState(null, "", writeState(this.state));
    } catch {
      // In an IFrame of `srcdoc` there is no address to write to.
    }
  }

  compute() {
    this.problem = undefined;
    try {
      this.found = findAll(this.model, this.state);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      this.problem = error;
      this.found = findAll(this.model, { ...this.state, sentence: "" });
    }
  }
}
