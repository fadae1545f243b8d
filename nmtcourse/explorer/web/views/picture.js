// The first view: source tokens, the encoder, lines of cross-attention, target tokens, next word.

import { byId, drawn, element, rounded } from "../dom.js";
import { mapOf } from "../facts.js";
import { apart } from "../written.js";
import { strand } from "./lines.js";

const LIKELY = 5; // words of the distribution that are shown
const PACE = 420; // milliseconds a word while it plays

/** `source` and `target` are the rows of tokens, which the lines join. */
export function pictureView(page, source, target, tell) {
  const { say } = page;
  const lines = drawn("svg", { class: "lines", "aria-hidden": true });
  const encoder = opener({ view: "inside", kind: "encoder-self", row: -1 }, "encoder-box");
  const cross = opener({ view: "attention", kind: "cross" }, "cross-box");
  const beam = opener({ view: "beam" }, "beam-box");
  const play = element("button", { id: "play", class: "strong", onclick: () => (playing ? pause() : start(partly ? at + 1 : 0)) });
  const step = element("button", { id: "step", class: "quiet", onclick: () => advance() });
  const title = element("h3");
  const bars = element("div", { class: "bars", id: "next-words" });
  const next = element("div", { class: "next" }, title, bars, beam);
  const middle = element("div", { class: "middle" }, lines, cross);
  const node = element("div", { class: "picture", id: "picture" }, source, encoder, middle, target, next);
  let [at, playing, partly, timer, sentence] = [-1, false, false];

  function opener(state, id) {
    const onclick = () => {
      page.set(state);
      byId("panel").scrollIntoView({ block: "nearest" });
    };
    return element("button", { class: "opener", id, onclick });
  }

  function start(row) {
    clearTimeout(timer);
    playing = row < page.found.told.length;
    name();
    if (!playing) return;
    partly = true;
    page.pointRow(row);
    show(row);
    timer = setTimeout(() => start(row + 1), PACE);
  }

  function pause() {
    clearTimeout(timer);
    playing = false;
    name();
  }

  /** One word more, from the start after the last. */
  function advance() {
    pause();
    const row = partly ? at + 1 : 0;
    partly = true;
    page.pointRow(row);
    show(row);
  }

  function name() {
    play.textContent = playing ? `❚❚ ${say("pause")}` : `▶ ${say("play")}`;
    step.textContent = say("step");
  }

  function update() {
    const { found } = page;
    node.hidden = play.hidden = step.hidden = !found.source.tokens.slice(1).length;
    name();
    encoder.textContent = say("kind.encoder-self");
    cross.textContent = say("long.cross");
    beam.textContent = say("open.beam");
    const other = sentence !== page.state.sentence;
    if (other) {
      pause();
      partly = false;
    }
    sentence = page.state.sentence;
    if (!node.hidden) show(other ? found.told.length - 1 : Math.min(at, found.told.length - 1));
    if (other && !matchMedia("(prefers-reduced-motion: reduce)").matches && page.moves) start(0);
  }

  /** The lines to a target token, and what the model expected there. */
  function show(row) {
    at = row;
    const { found, state, model } = page;
    if (row + 1 === found.told.length) partly = false;
    tell(partly ? row + 1 : found.told.length);
    const width = found.trace.columns.cross.length;
    const map = mapOf(found.trace, "cross", state.layer, state.head);
    [...target.children].forEach((chip, i) => {
      chip.classList.toggle("later", partly && i > row);
      chip.classList.toggle("now", i === row);
    });
    drawLines(row, (t, s) => map[t * width + s]);
    const likely = [...found.next[row].keys()]
      .sort((a, b) => found.next[row][b] - found.next[row][a])
      .slice(0, LIKELY);
    title.textContent = say("next", { n: row + 1 });
    const words = apart(likely.map((id) => model.target.tokens[id]));
    bars.replaceChildren(
      ...likely.map((id, i) => bar(words[i], found.next[row][id], id === found.told[row])),
      words.some((word) => word.startsWith("␣")) ? element("small", {}, say("boundary")) : "",
    );
  }

  function drawLines(row, weight) {
    const frame = lines.getBoundingClientRect();
    const middleOf = (chip) => {
      const box = chip.getBoundingClientRect();
      return box.top + box.height / 2 - frame.top;
    };
    const ends = [...source.children].map(middleOf);
    const paths = [...target.children].flatMap((chip, t) => {
      if (partly && t > row) return [];
      const y = middleOf(chip);
      return ends.map((from, s) => {
        return strand([0, from], [frame.width, y], weight(t, s), t === row ? "line now" : "line");
      });
    });
    lines.setAttribute("viewBox", `0 0 ${frame.width || 1} ${frame.height || 1}`);
    lines.replaceChildren(...paths.filter(Boolean));
  }

  new ResizeObserver(() => at >= 0 && !node.hidden && show(at)).observe(node);
  return { node, buttons: [play, step], update, show, follow: (row) => playing || show(row) };
}

function bar(word, logProb, chosen) {
  const p = Math.exp(logProb);
  const fill = element("i", { style: `width: ${(100 * p).toFixed(1)}%` });
  const kind = chosen ? "bar-row chosen" : "bar-row";
  const track = element("span", { class: "bar", "aria-hidden": true }, fill);
  return element("div", { class: kind }, element("span", {}, word), track, element("b", {}, rounded(p)));
}
