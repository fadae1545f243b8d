// Arrows, Page Up and Down, the space bar, Home and End; the address remembers the slide.
"use strict";
const slides = [...document.querySelectorAll("section")];

function current() {
  const middle = window.scrollY + window.innerHeight / 2;
  return Math.max(0, slides.findLastIndex((slide) => slide.offsetTop <= middle));
}

function show(number) {
  const place = Math.min(Math.max(number, 0), slides.length - 1);
  slides[place].scrollIntoView();
  history.replaceState(null, "", `#${place + 1}`);
}

function forward() {
  const next = slides[current()].querySelector(".fragment:not(.seen)");
  if (next) next.classList.add("seen");
  else show(current() + 1);
}

function back() {
  const seen = [...slides[current()].querySelectorAll(".fragment.seen")].pop();
  if (seen) seen.classList.remove("seen");
  else show(current() - 1);
}

const keys = {
  ArrowRight: forward, ArrowDown: forward, PageDown: forward, " ": forward,
  ArrowLeft: back, ArrowUp: back, PageUp: back,
  Home: () => show(0), End: () => show(slides.length - 1),
};
document.addEventListener("keydown", (event) => {
  const plain = !event.ctrlKey && !event.altKey && !event.metaKey;
  if (!plain || !(event.key in keys) || event.target.closest("summary, a, input")) return;
  event.preventDefault();
  keys[event.key]();
});

// For those who make slides: how many pixels of one lie outside it, its answer opened.
function measure() {
  for (const slide of slides) {
    const answers = [...slide.querySelectorAll("details")];
    for (const answer of answers) answer.open = true;
    const over = slide.scrollHeight - slide.clientHeight;
    const wide = slide.scrollWidth - slide.clientWidth;
    slide.dataset.over = Math.max(over, wide, 0);
    for (const answer of answers) answer.open = false;
  }
}

document.body.classList.add("ready");
const ask = () => show(Number(location.hash.slice(1)) - 1 || 0);
ask();
window.addEventListener("hashchange", ask);
window.addEventListener("load", async () => {
  if (window.MathJax?.startup) await window.MathJax.startup.promise;
  measure();
});
