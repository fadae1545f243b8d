// What the page says about a translation is measured here, never written by hand.

import { greedy, beam } from "./search.js";
import { BOS, EOS } from "./specials.js";
import { START, switchesOf } from "./state.js";
import { logSoftmax } from "./tensor.js";
import { bare } from "./written.js";

/**
 * All that the page shows of a state: the sentence, its translations and every attention.
 * Throws RangeError for a sentence that the model cannot read.
 */
export function findAll(model, state) {
  const { tokens, unknown } = model.source.encode(state.sentence);
  const end = model.source.tokens[EOS];
  const source = {
    ids: model.read(state.sentence),
    tokens: [...tokens, end],
    unknown: [...unknown, false],
  };
  const untouched = { ...START, sentence: state.sentence, beam: state.beam, alpha: state.alpha };
  const usual = translated(model, source.ids.length, untouched);
  const touched = isTouched(state);
  const now = touched ? translated(model, source.ids.length, state) : usual;
  const told = [...now.ids, EOS]; // what each row of the decoder says
  const read = [BOS, ...now.ids]; // and what each column of the decoder has read
  const switches = switchesOf(state, source.ids.length);
  const trace = model.trace(source.ids, read, switches);
  // Maps name an unknown word as it was typed.
  const typed = [...source.tokens.map(bare), ...trace.columns.cross.slice(source.tokens.length)];
  trace.columns.cross = trace.rows["encoder-self"] = trace.columns["encoder-self"] = typed;
  // Without the causal mask the rows of a trace have seen the words after them.
  const next = state.causal ? trace.logits.map(logSoftmax) : steps(model, source.ids, now.ids, switches);
  const logProbs = told.map((id, row) => next[row][id]);
  const perplexity = Math.exp(-sumOf(logProbs) / logProbs.length);
  return { source, usual, now, told, read, trace, next, logProbs, touched, perplexity };
}

/** Whether any switch stands otherwise than it was trained. */
export function isTouched(state) {
  return !(state.causal && state.padding && state.positions && state.scale) || Boolean(state.off);
}

function translated(model, length, state) {
  const switches = switchesOf(state, length);
  const { sentence } = state;
  const started = performance.now();
  const one = greedy(model, sentence, { switches });
  const wide = beam(model, sentence, { beam: state.beam, lengthPenalty: state.alpha, switches });
  const milliseconds = performance.now() - started;
  return { ...wide.best, greedy: one, beam: wide, milliseconds };
}

export function sumOf(values) {
  return values.reduce((sum, value) => sum + value, 0);
}

/** Log-probabilities of given words, EOS included, each from the words before it alone. */
export function spoken(model, sourceIds, ids, switches) {
  return steps(model, sourceIds, ids, switches).map((row, n) => row[ids[n] ?? EOS]);
}

/** The log-probabilities of all words after BOS and after each of these, (T, V). */
function steps(model, sourceIds, ids, switches) {
  let state = model.begin(sourceIds, switches);
  return [BOS, ...ids].map((id) => {
    const next = model.step(state, id);
    state = next.state;
    return logSoftmax(next.logits);
  });
}

/** From one list of words to another with as few changes as possible: [{was, is, at}]. */
export function changes(before, after) {
  const common = longestCommon(before, after);
  const found = [];
  let [i, j] = [0, 0];
  for (const [a, b] of [...common, [before.length, after.length]]) {
    if (a > i || b > j) found.push({ was: before.slice(i, a), is: after.slice(j, b), at: j });
    [i, j] = [a + 1, b + 1];
  }
  return found;
}

/** The changes from one translation to another that a reader sees: other words, not other tokens. */
export function visibleChanges(model, before, after) {
  const [was, is] = [before, after].map((text) => text.split(" ").filter(Boolean));
  return changes(was, is).filter((one) => !model.readsAs(one.was.join(" "), one.is.join(" ")));
}

function longestCommon(before, after) {
  const length = before.map(() => new Array(after.length + 1).fill(0));
  length.push(new Array(after.length + 1).fill(0));
  for (let i = before.length - 1; i >= 0; i--) {
    for (let j = after.length - 1; j >= 0; j--) {
      const skip = Math.max(length[i + 1][j], length[i][j + 1]);
      length[i][j] = before[i] === after[j] ? length[i + 1][j + 1] + 1 : skip;
    }
  }
  const pairs = [];
  for (let i = 0, j = 0; i < before.length && j < after.length;) {
    if (before[i] === after[j]) pairs.push([i++, j++]);
    else if (length[i + 1][j] >= length[i][j + 1]) i++;
    else j++;
  }
  return pairs;
}

/** The mean of `measure(row, r, columns)` over all rows of all maps of a kind. */
function meanOverRows(trace, kind, measure) {
  const [rows, columns] = [trace.rows[kind].length, trace.columns[kind].length];
  let [sum, count] = [0, 0];
  for (const layer of trace.maps[kind]) {
    for (const map of layer) {
      for (let r = 0; r < rows; r++, count++) {
        sum += measure(map.subarray(r * columns, (r + 1) * columns), r, columns);
      }
    }
  }
  return sum / count;
}

/** The share of the decoder's self-attention that lies on words which are not said yet. */
export function leaked(trace) {
  return meanOverRows(trace, "decoder-self", (row, r) => sumOf(row.subarray(r + 1)));
}

/** The share of a kind of attention that lies on the last `pads` places. */
export function onPads(trace, kind, pads) {
  return meanOverRows(trace, kind, (row, r, columns) => sumOf(row.subarray(columns - pads)));
}

/** The mean of each row's largest weight, over all three kinds. */
export function sharpness(trace) {
  const kinds = Object.keys(trace.maps);
  return (
    sumOf(kinds.map((kind) => meanOverRows(trace, kind, (row) => Math.max(...row)))) / kinds.length
  );
}

/** One map of a trace, or the mean of a layer's heads where `head` is -1. */
export function mapOf(trace, kind, layer, head) {
  const maps = trace.maps[kind].at(Math.min(layer, trace.maps[kind].length - 1));
  if (head >= 0) return maps[Math.min(head, maps.length - 1)];
  const mean = new Float32Array(maps[0].length);
  for (const map of maps) map.forEach((weight, i) => (mean[i] += weight / maps.length));
  return mean;
}

/** The gold alignment of what is said, as a set of "row,column"; empty where it is not known. */
export function goldOf(examples, found, kind) {
  if (kind !== "cross") return new Set();
  const words = (tokens) => tokens.slice(0, -1).join(" ");
  const example = examples.find((one) => one.source === words(found.source.tokens));
  if (!example || example.target !== words(found.trace.rows.cross)) return new Set();
  return new Set(example.alignment.map(([i, j]) => `${j},${i}`));
}

/** The head whose weight lies most on the gold words: {layer, head, share}. */
export function bestHead(trace, gold) {
  const columns = trace.columns.cross.length;
  let best = { layer: 0, head: 0, share: -1 };
  trace.maps.cross.forEach((heads, layer) => {
    heads.forEach((map, head) => {
      let share = 0;
      for (const place of gold) {
        const [row, column] = place.split(",").map(Number);
        share += map[row * columns + column];
      }
      if (share > best.share) best = { layer, head, share };
    });
  });
  return best;
}
