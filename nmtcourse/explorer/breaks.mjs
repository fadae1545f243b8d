// For each shipped model and each switch the sentence whose translation it changes most, and one that beam search
// wins (its translation is more probable than that of greedy search) and one that it loses.  All are among the
// examples, which the model as trained translates rightly and without doubt.  Of sentences that change as much a
// person may choose another one.
//
//   node nmtcourse/explorer/breaks.mjs PAYLOAD.json    prints {switch, wins or loses: sentence}; `tests/explorer` holds them
import { readFileSync } from "node:fs";

const web = new URL("web/", import.meta.url);
const [{ loadModel }, { OFF, damage }, { START }, { beam, greedy }] = await Promise.all(
  ["model.js", "breaks.js", "state.js", "search.js"].map((name) => import(new URL(name, web))),
);
const model = await loadModel(JSON.parse(readFileSync(process.argv[2], "utf8")));
START.beam = model.decoding.beam;
START.alpha = model.decoding.lengthPenalty;
// Of the grammars' other sentences, ones that beam search gets right and greedy search does not.
const HARD = [
  ["haben die Männer heute Morgen diese Vögel hinter dem Haus gesehen ?", "did the men see these birds behind the house this morning ?"],
  ["is the meat fresh ?", "肉 新鲜 吗 ？"],
].map(([source, target]) => ({ source, target }));
const LEAST = 0.01; // probability of the translation as trained: less would show no fall
const probable = ({ source }) => Math.exp(beam(model, source).best.logProb) >= LEAST;
const AT_ONCE = 60; // sentences; more are tried only where none of these changes
const short = model.examples.filter(({ source }) => source.split(" ").length <= 14);
const found = {};
for (const name of Object.keys(OFF)) {
  for (let start = 0; start < short.length && !found[name]; start += AT_ONCE) {
    const some = short.slice(start, start + AT_ONCE).filter(probable);
    const scored = some.map(({ source }) => [damage(model, source, name), source]);
    scored.sort((a, b) => b[0] - a[0] || a[1].length - b[1].length);
    if (scored[0]?.[0] > 0) found[name] = scored[0][1];
    console.error(name, scored.filter(([words]) => words > 0).length, "of", scored.length, scored[0]);
  }
}
const known = ({ source }) => !model.source.encode(source).unknown.some(Boolean);
const contests = { wins: [], loses: [] };
for (const { source, target } of [...model.examples, ...HARD.filter((one) => model.toy && known(one))]) {
  const [wide, one] = [beam(model, source).best, greedy(model, source)];
  if (model.readsAs(wide.text, one.text)) continue;
  const gain = wide.logProb - one.logProbs.reduce((sum, value) => sum + value, 0);
  const [kind, better] = gain > 0 ? ["wins", wide] : ["loses", one];
  contests[kind].push({ source, right: model.readsAs(better.text, target) });
}
for (const [kind, all] of Object.entries(contests)) found[kind] = (all.find(({ right }) => right) ?? all[0])?.source;
console.log(JSON.stringify(found));
