// The page put together: its parts, their order, and what is drawn again after a change.

import { arrowsAmong, byId, counted, element } from "./dom.js";
import { loadModel } from "./model.js";
import { Page } from "./page.js";
import { savePicture } from "./save.js";
import { SPECIALS } from "./specials.js";
import { readState } from "./state.js";
import { tourView } from "./tour.js";
import { attentionView } from "./views/attention.js";
import { beamView } from "./views/beam.js";
import { cacheView } from "./views/cache.js";
import { insideView } from "./views/inside.js";
import { learnView } from "./views/learn.js";
import { positionsView } from "./views/positions.js";
import { sentenceView } from "./views/sentence.js";
import { shapesView } from "./views/shapes.js";
import { effectView, switchesView } from "./views/switches.js";

const NOTEBOOK_OF = {
  attention: "04_scaled_dot_product_attention",
  inside: "07_the_full_model",
  learn: "09_training",
  beam: "10_decoding",
  cache: "10_decoding",
  positions: "03_positional_encoding",
  shapes: "07_the_full_model",
};

const payload = JSON.parse(byId("payload").textContent);
loadModel(payload).then(begin);

function begin(model) {
  const page = new Page(model, payload.notebooks, render);
  const sentence = sentenceView(page);
  const effect = effectView(page);
  const switches = switchesView(page, effect);
  const views = viewsOf(page);
  const tour = tourView(page);
  const rail = element("div", { class: "rail" }, tour.node, switches.node);
  byId("page").append(sentence.node, rail, views.node);
  byId("page").hidden = false;
  listen(page, tour);

  function render() {
    const focused = document.activeElement?.id;
    renderFrame(page);
    for (const part of [sentence, switches, effect, views, tour]) part.update();
    const lost = focused && document.activeElement?.id !== focused;
    if (lost) byId(focused)?.focus({ preventScroll: true });
  }

  render();
  if (page.state.tour) tour.open(page.state.tour);
  globalThis.explorer = page; // for the console, and for tests
  document.documentElement.dataset.ready = "yes";
}

function listen(page, tour) {
  arrowsAmong(byId("tools")); // one stop of the Tab key
  byId("language").addEventListener("click", () => {
    page.set({ lang: page.language === "zh" ? "en" : "zh" });
  });
  byId("theme").addEventListener("click", () => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const shown = page.state.theme || (dark ? "dark" : "light");
    page.set({ theme: shown === "dark" ? "light" : "dark" });
  });
  byId("start-tour").addEventListener("click", () => tour.open(1));
  window.addEventListener("hashchange", () => {
    const next = readState(location.hash);
    next.sentence ||= page.state.sentence;
    page.set(next);
    if (next.tour) tour.open(next.tour);
  });
}

/** What stands outside the parts: language, colours, title, the foot. */
function renderFrame(page) {
  const { say, state } = page;
  const root = document.documentElement;
  root.lang = page.language === "zh" ? "zh-Hans" : "en";
  if (state.theme) root.dataset.theme = state.theme;
  else delete root.dataset.theme;
  for (const node of document.querySelectorAll("[data-say]"))
    node.textContent = say(node.dataset.say);
  document.body.classList.toggle("embedded", state.embed);
  const V = page.model.source.tokens.length - SPECIALS;
  byId("lead").textContent = say(page.model.toy ? "lead.toy" : "lead", { V });
  document.title = say("title");
  byId("language").textContent = page.language === "zh" ? "English" : "中文";
  byId("language").setAttribute("aria-label", say("other"));
  byId("theme").setAttribute("aria-label", say("theme"));
  byId("theme").title = say("theme");
  const tour = { href: page.notebooks.replace("{stem}", "00_tour") };
  if (page.notebooks) byId("home").replaceChildren(element("a", tour, say("home")));
  renderFoot(page);
}

function renderFoot({ model, say }) {
  const { n_encoder_layers: E, n_decoder_layers: L, n_heads: H } = model.config;
  let weights = 0;
  for (const { values } of model.tensors.values()) weights += values.length;
  const said = [say("footer", { name: model.name, weights: counted(weights), E, L, H })];
  if (model.credit) said.push(model.credit);
  if (model.rounded) said.push(say("footer.rounded"));
  if (model.links?.length) said.push(say("models"));
  const links = (model.links ?? []).map(({ name, href }) => element("a", { href }, name));
  byId("foot").replaceChildren(said.join(" "), ...links.flatMap((link) => [" ", link]));
}

/** The tabs and the view that is chosen. */
function viewsOf(page) {
  const views = {
    attention: attentionView(page),
    inside: insideView(page),
    learn: learnView(page),
    beam: beamView(page),
    cache: cacheView(page),
    positions: positionsView(page),
    shapes: shapesView(page),
  };
  const tabs = element("div", { class: "tabs", id: "tabs", role: "tablist" });
  const link = element("span", { class: "explained" });
  const panel = element("div", { class: "panel", id: "panel", role: "tabpanel", tabindex: -1 });
  const empty = element("p", { class: "about" });
  const drawing = () => panel.querySelector("svg:is(.map, .tree, .cache, .table)");
  const onclick = () => savePicture(drawing(), `${page.state.view}.svg`);
  const save = element("button", { id: "save", class: "quiet", onclick });
  const bar = element("div", { class: "bar-top" }, tabs, link);

  function update() {
    const { state, say, found } = page;
    tabs.setAttribute("aria-label", say("views"));
    tabs.replaceChildren(...page.views.map((name) => tabOf(page, name)));
    link.replaceChildren(page.notebook(NOTEBOOK_OF[state.view]));
    panel.setAttribute("aria-labelledby", `tab-${state.view}`);
    const ready = found.now.beam.steps.length > 0;
    empty.textContent = say("empty");
    const shown = ready ? views[state.view].node : empty;
    if (panel.firstChild !== shown) panel.replaceChildren(shown);
    if (ready) views[state.view].update();
    save.textContent = say("save");
    save.hidden = !ready || !drawing();
  }

  return { node: element("section", { class: "card view" }, bar, panel, save), update };
}

function tabOf(page, name) {
  const chosen = name === page.state.view;
  const keys = { ArrowRight: 1, ArrowLeft: -1 };
  const onkeydown = (event) => {
    if (!(event.key in keys)) return;
    event.preventDefault();
    const view = page.views.at((page.views.indexOf(name) + keys[event.key]) % page.views.length);
    page.set({ view });
    byId(`tab-${view}`).focus();
  };
  const state = {
    "aria-selected": String(chosen),
    "aria-controls": "panel",
    tabindex: chosen ? 0 : -1,
  };
  const onclick = () => page.set({ view: name });
  const shape = { id: `tab-${name}`, role: "tab", ...state, onclick, onkeydown };
  return element("button", shape, page.say(`view.${name}`));
}
