// For each shipped model and each switch the sentence whose translation it changes most:
//
//   node nmtcourse/explorer/breaks.mjs PAYLOAD.json NAME    prints {switch: sentence}; `tests/explorer` holds them
import { readFileSync } from "node:fs";

const web = new URL("web/", import.meta.url);
const [{ loadModel }, { OFF, damage }, { START }] = await Promise.all(
  ["model.js", "breaks.js", "state.js"].map((name) => import(new URL(name, web))),
);
const model = await loadModel(JSON.parse(readFileSync(process.argv[2], "utf8")));
START.beam = model.decoding.beam;
START.alpha = model.decoding.lengthPenalty;
const short = model.examples.filter(({ source }) => source.split(" ").length <= 12).slice(0, 60);
const found = {};
for (const name of Object.keys(OFF)) {
  const scored = short.map(({ source }) => [damage(model, source, name), source]);
  scored.sort((a, b) => b[0] - a[0] || a[1].length - b[1].length);
  if (scored[0][0] > 0) found[name] = scored[0][1];
  console.error(name, scored.filter(([words]) => words > 0).length, "of", scored.length, scored[0]);
}
console.log(JSON.stringify(found));
