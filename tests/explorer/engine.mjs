// Runs the engine of the explorer in node: jobs as JSON on standard input, results on the output.
//
//   node engine.mjs WEB < {"payload": PATH or null, "jobs": [{"do": "greedy", …}, …]}
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const WEB = pathToFileURL(`${process.argv[2]}/`);
const { Model, loadModel } = await import(new URL("model.js", WEB));
const { unpackWeights } = await import(new URL("unpack.js", WEB));
const { confidenceOf, perplexityOf } = await import(new URL("confidence.js", WEB));
const { apart } = await import(new URL("written.js", WEB));
const { OFF, damage } = await import(new URL("breaks.js", WEB));
const { offered } = await import(new URL("examples.js", WEB));
const { visibleChanges } = await import(new URL("facts.js", WEB));
const { RANGES, START, fitTo, stepTo, switchesOf } = await import(new URL("state.js", WEB));
const { readingOf } = await import(new URL("text.js", WEB));
const { beam, greedy } = await import(new URL("search.js", WEB));

const { payload, jobs } = JSON.parse(readFileSync(0, "utf8"));
/** Milliseconds of the processor since `before`: other programs do not count. */
const cpu = (before = 0) => process.cpuUsage().user / 1000 - before;
const began = cpu();
const model = payload && (await loadModel(JSON.parse(readFileSync(payload, "utf8"))));
const unpacked = cpu(began);

/** What a refusal says, in place of a result. */
function attempt(work) {
  try {
    return work();
  } catch (error) {
    return { error: error.message };
  }
}

const actions = {
  logits({ source, target, switches }) {
    return model.decode(model.encode(source, switches), target, switches).logits;
  },
  steps({ source, target, switches }) {
    let state = model.start(model.encode(source, switches), switches);
    return target.map((token) => {
      const next = model.step(state, token);
      state = next.state;
      return next.logits;
    });
  },
  trace: ({ source, target, switches }) => model.trace(source, target, switches),
  inside: ({ side, layer, row, source, target }) => model.inside(side, layer, row, source, target),
  greedy: ({ source, options }) => greedy(model, source, options),
  beam: ({ source, options }) => beam(model, source, options),
  beamIds: ({ source, options }) => beam(model, source, options).best.ids,
  greedyIds: ({ source, options }) => greedy(model, source, options).ids,
  positions: ({ length, side }) => model.positions(length, side),
  multiplications: ({ sizes }) => model.multiplications(sizes),
  cacheBytes: ({ sizes }) => model.cacheBytes(sizes),
  facts() {
    const { name, languages, decoding, rounded, links, examples, source, target } = model;
    const typed = [source.typed, target.typed];
    return { name, languages, decoding, rounded, links, examples, typed };
  },
  tensors: ({ names }) =>
    Object.fromEntries(names.map((name) => [name, model.tensors.get(name).values])),
  speed({ texts }) {
    const translate = (text, search) => {
      const start = cpu();
      search(model, text);
      return cpu(start);
    };
    const [first, ...later] = texts.map((text) => translate(text, greedy));
    return { unpacked, first, later, beams: texts.map((text) => translate(text, beam)) };
  },
  async learnt({ learning: { tensors, moments, ...known }, moment, texts }) {
    const { high, low } = moments.at(moment);
    const small = new Model({ ...known, weights: {} }, await unpackWeights({ tensors, high, low }));
    return texts.map((text) => greedy(small, text).text);
  },
  newWords: ({ confidence, texts }) => texts.map((text) => confidenceOf(confidence).newWords(text)),
  apart: ({ tokens }) => apart(tokens),
  /** Each translation as a reader sees it, its perplexity, and whether the page says that it is doubtful. */
  translated: ({ texts }) =>
    texts.map((text) => {
      const { best } = beam(model, text);
      const perplexity = perplexityOf(best);
      const doubted = model.confidence.doubts(perplexity);
      const hesitates = model.confidence.hesitates(perplexity);
      return { text: model.written(best.text), perplexity, doubted, hesitates };
    }),
  offered: () => offered(model),
  written: ({ texts }) => texts.map((text) => model.written(text)),
  /** What the page reports of a sentence without a part. */
  withoutPart({ source, name }) {
    fitTo(model.decoding);
    const off = (changes) => {
      const switches = switchesOf({ ...START, ...changes }, model.read(source).length);
      return beam(model, source, { switches }).best.text;
    };
    const [before, after] = [off({}), off(OFF[name])];
    const changes = visibleChanges(model, before, after);
    return { before, after, changes, words: damage(model, source, name) };
  },
  changes: ({ before, after }) => visibleChanges(model, before, after),
  controls({ decoding }) {
    fitTo(decoding);
    return { beam: RANGES.beam, alpha: RANGES.alpha, step: stepTo(START.alpha), start: { ...START } };
  },
  read: ({ text }) => attempt(() => model.read(text)),
  encode: ({ codec, texts }) => {
    const reading = readingOf(codec);
    return texts.map((text) => attempt(() => reading.encode(text)));
  },
  decode({ codec, ids }) {
    const reading = readingOf(codec);
    return ids.map((numbers) => reading.decode(numbers));
  },
};

const results = await Promise.all(jobs.map((job) => actions[job.do](job)));
const plain = (_, value) => (value instanceof Float32Array ? Array.from(value) : value);
process.stdout.write(JSON.stringify(results, plain));
