// A drawing of the page as a file of its own.

import { element } from "./dom.js";

// What the style sheet of the page says about a drawing, which the file does not have.
const KEPT = "fill fill-opacity stroke stroke-width stroke-opacity stroke-dasharray opacity visibility font-size font-weight font-family text-anchor dominant-baseline".split(" ");

/** Save an SVG, with the colours that it has now, under a name. */
export function savePicture(svg, name) {
  const copy = svg.cloneNode(true);
  const [seen, saved] = [svg, copy].map((node) => [node, ...node.querySelectorAll("*")]);
  seen.forEach((node, i) => {
    const style = getComputedStyle(node);
    saved[i].setAttribute("style", KEPT.map((key) => `${key}:${style.getPropertyValue(key)}`).join(";"));
  });
  copy.style.background = getComputedStyle(svg.closest(".card")).backgroundColor;
  const text = new XMLSerializer().serializeToString(copy);
  const href = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  element("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 1000);
}
