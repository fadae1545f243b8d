// For each switch a sentence in which it bites: it reads otherwise without the part.

import { visibleChanges } from "./facts.js";
import { beam } from "./search.js";
import { switchesOf, START } from "./state.js";

/** What pressing a switch changes in the state; PADs are needed to see that their mask is off. */
export const OFF = {
  causal: { causal: false },
  padding: { padding: false, pads: 4 },
  positions: { positions: false },
  scale: { scale: false },
};

/** How many words of a sentence's translation a switch changes, as a reader sees them. */
export function damage(model, sentence, name) {
  const [before, after] = [{}, OFF[name]].map((off) => {
    const switches = switchesOf({ ...START, ...off }, model.read(sentence).length);
    const search = { beam: START.beam, lengthPenalty: START.alpha, switches };
    return beam(model, sentence, search).best.text;
  });
  return visibleChanges(model, before, after).reduce((sum, { was, is }) => sum + Math.max(was.length, is.length), 0);
}

/** The sentence that was found when the page was built, or the first that a switch changes. */
export function breaking(model, name) {
  model.breaks[name] ??= model.examples.find((one) => damage(model, one.source, name))?.source ?? "";
  return model.breaks[name];
}
