// Watch it learn: one sentence, translated with the weights of several moments of one small training.

import { arrowsAmong, byId, counted, drawn, element, marked, rounded, slider } from "../dom.js";
import { offered } from "../examples.js";
import { goldOf, mapOf } from "../facts.js";
import { Model } from "../model.js";
import { greedy } from "../search.js";
import { BOS, EOS } from "../specials.js";
import { unpackWeights } from "../unpack.js";
import { writtenText } from "../written.js";
import { largeMap } from "./heatmap.js";

const PACE = 1200; // milliseconds a moment while it plays

export function learnView(page) {
  const { say } = page;
  const about = element("p", { class: "about" });
  const tries = element("div", { class: "tries", id: "lessons", role: "group" });
  const play = element("button", { id: "learn-play", class: "strong", onclick: () => (timer ? pause() : start()) });
  const controls = element("div", { class: "controls" });
  const readout = element("p", { class: "readout", id: "learn-readout", "aria-live": "polite" });
  const rows = element("ol", { class: "moments", id: "moments" });
  const heads = element("div", { class: "choice", role: "group", id: "learn-heads" });
  const svg = drawn("svg", { class: "map", role: "img" });
  const scroll = element("div", { class: "scroll", id: "learn-map", tabindex: 0, role: "group" }, svg);
  const caption = element("h3");
  const legend = element("p", { class: "legend" });
  const side = element("div", { class: "learnt" }, caption, heads, scroll, legend);
  const node = element("div", { id: "learn" }, about, tries, controls, readout, element("div", { class: "two" }, rows, side));
  let [learner, timer, language, moments, row] = [];
  arrowsAmong(tries);

  /** Unpacked when it is looked at for the first time: the rest of the page needs none of it. */
  async function load() {
    learner = {}; // under way
    const { tensors, ...known } = JSON.parse(byId("learning").textContent);
    const unpacked = await Promise.all(known.moments.map(({ high, low }) => unpackWeights({ tensors, high, low })));
    learner = { ...known, models: unpacked.map((each) => new Model({ ...known, weights: {} }, each)) };
    page.render();
  }

  function start() {
    if (page.state.view !== "learn") return pause();
    const last = learner.moments.length - 1;
    const next = page.state.moment < last ? page.state.moment + 1 : 0;
    timer = setTimeout(() => (next < last ? start() : pause()), PACE);
    return page.set({ moment: next });
  }

  function pause() {
    clearTimeout(timer);
    timer = undefined;
    page.render();
  }

  function update() {
    about.replaceChildren(say("learn.loading"));
    if (document.readyState === "loading") return document.addEventListener("DOMContentLoaded", page.render, { once: true });
    if (!learner) return load();
    if (!learner.models) return undefined;
    const { state } = page;
    if (language !== page.language) buildSlider();
    language = page.language;
    const at = Math.min(state.moment, learner.moments.length - 1);
    moments.set(at);
    play.textContent = timer ? `❚❚ ${say("pause")}` : `▶ ${say("learn.play")}`;
    const { config, tests, right } = learner;
    const weights = [...learner.models[0].tensors.values()].reduce((sum, { values }) => sum + values.length, 0);
    const count = { weights: counted(weights), updates: counted(learner.moments.at(-1).updates) };
    about.replaceChildren(...marked(say("about.learn", { ...count, right: counted(right), tests: counted(tests) })));
    const lessons = lessonsOf(page, learner);
    const easy = lessons.find(({ key }) => key === "yours" || key === "because");
    const lesson = lessons.find(({ sentence }) => sentence === state.lesson) ?? easy ?? lessons[0];
    tries.setAttribute("aria-label", say("tries"));
    tries.replaceChildren(...lessons.map((one, i) => tryButton(page, one, one === lesson, i)));
    const seen = learner.models.map((model) => momentOf(model, lesson.sentence));
    readout.replaceChildren(...marked(readoutOf(page, learner, at, seen[at])));
    rows.setAttribute("aria-label", say("learn.rows"));
    rows.replaceChildren(...seen.map((one, i) => momentRow(page, learner, one, i, at)));
    caption.textContent = say("learn.map");
    heads.setAttribute("aria-label", say("heads.one"));
    heads.replaceChildren(...[-1, ...Array(config.n_heads).keys()].map((head) => headButton(page, head)));
    scroll.setAttribute("aria-label", caption.textContent);
    svg.setAttribute("aria-label", `${caption.textContent}: ${readout.textContent}`);
    legend.replaceChildren(element("span", {}, element("i", { class: "goldkey", "aria-hidden": true }), say("legend.gold")));
    row = -1;
    draw(seen[at]);
    return undefined;
  }

  function draw(one) {
    const weights = mapOf(one.trace, "cross", 0, page.state.head);
    const [names, columns] = [one.trace.rows.cross, one.trace.columns.cross];
    const point = (next) => next !== row && ((row = next), draw(one));
    const shown = { weights, rows: names, columns, gold: one.gold, hidden: () => false, row, column: -1 };
    largeMap(svg, shown, Math.min(side.clientWidth || 420, 520), { point, choose: point });
  }

  function buildSlider() {
    const change = (moment) => page.set({ moment });
    const show = (n) => counted(learner.moments[n].updates);
    moments = slider({ id: "moment", min: 0, max: learner.moments.length - 1, step: 1, value: 0, label: say("learn.slider"), show, change });
    controls.replaceChildren(play, element("div", { class: "sliders" }, moments.node));
  }

  return { node, update };
}

/** What one may translate: the sentence above, where the small model knows its words, and examples. */
function lessonsOf(page, { models: [model] }) {
  const sentence = model.source.meant(page.state.sentence);
  const { ids, unknown } = model.source.encode(sentence);
  const own = ids.length && !unknown.some(Boolean) ? [{ key: "yours", sentence }] : [];
  return [...own, ...offered(model).filter(({ key }) => key !== "unknown")];
}

/** What the model of one moment makes of a sentence, and of its reference, word by word. */
function momentOf(model, sentence) {
  const example = model.examples.find(({ source }) => source === sentence);
  const { ids, tokens } = model.source.encode(sentence);
  const source = { tokens: [...tokens, model.source.tokens[EOS]] };
  const { text, ids: said } = greedy(model, [...ids, EOS]);
  const told = example ? model.target.encode(example.target).ids : said;
  const trace = model.trace([...ids, EOS], [BOS, ...told]);
  const best = trace.logits.map((logits) => logits.indexOf(Math.max(...logits)));
  const right = [...told, EOS].filter((id, i) => best[i] === id).length;
  return { text, trace, right, all: told.length + 1, gold: goldOf(model.examples, { source, trace }, "cross") };
}

function readoutOf({ say }, { moments }, at, { right, all }) {
  const { updates, loss } = moments[at];
  return say("learn.readout", { n: counted(updates), loss: rounded(loss), right, all });
}

function momentRow({ say }, { moments, languages }, { text }, i, at) {
  const { updates, loss } = moments[i];
  const fill = element("i", { style: `width: ${(100 * loss) / moments[0].loss}%` });
  const bar = element("span", { class: "bar", "aria-hidden": true }, fill);
  const head = element("span", { class: "when" }, say("learn.after", { n: counted(updates) }));
  const measured = element("span", { class: "loss" }, bar, say("learn.loss", { loss: rounded(loss) }));
  const said = element("b", { lang: languages[1] }, writtenText(text, languages[1]) || say("nothing"));
  const kind = i === at ? "moment now" : i > at ? "moment later" : "moment";
  return element("li", { class: kind }, head, measured, said);
}

function tryButton(page, { key, sentence }, chosen, i) {
  const shape = { class: "try", "aria-pressed": String(chosen), title: sentence, tabindex: chosen ? 0 : -1 };
  return element("button", { ...shape, id: `lesson-${i}`, onclick: () => page.set({ lesson: sentence }) }, page.say(`try.${key}`));
}

function headButton(page, head) {
  const pressed = { "aria-pressed": String(page.state.head === head), onclick: () => page.set({ head }) };
  const name = head < 0 ? page.say("mean") : page.say("head", { n: head });
  return element("button", { id: `learn-head-${head}`, ...pressed }, name);
}
