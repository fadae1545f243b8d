// The guided tour: a card that sets the page into a state, lights a part, and asks before it shows.

import { byId, element, marked } from "./dom.js";
import { START } from "./state.js";
import { STOPS, offeredStops } from "./stops.js";

export function tourView(page) {
  const { say } = page;
  const node = element("section", { class: "card tour", id: "tour", tabindex: -1, hidden: true });
  let values = {};
  let answered; // the number of the option chosen, and what the page measured

  /** Enter stop number n of all, counted from 1, or the next that is offered; 0 leaves the tour. */
  function open(wanted) {
    answered = undefined;
    unlight();
    const n = wanted && (offeredStops(page).find((one) => one >= wanted) ?? 0);
    const stop = STOPS[n - 1];
    document.body.classList.toggle("touring", Boolean(stop));
    document.body.dataset.veil = stop?.veil ?? "";
    if (!stop) return close();
    const { lang, theme } = page.state;
    page.set({ ...START, ...stop.state(page), lang, theme, tour: n });
    values = stop.values?.(page) ?? {};
    if (stop.head) page.set(stop.head(page));
    draw();
    light(stop.part);
    node.focus({ preventScroll: true });
  }

  function close() {
    node.hidden = true;
    page.set({ tour: 0 });
    byId("start-tour").focus();
  }

  function answer(choice) {
    const stop = STOPS[page.state.tour - 1];
    document.body.dataset.veil = "";
    if (stop.after) page.set(stop.after(page));
    const found = stop.answer(page, values);
    answered = { choice, right: found.right };
    values = { ...values, ...found.values };
    draw();
    light(typeof stop.then === "function" ? stop.then(page) : (stop.then ?? stop.part));
    byId("tour-next").focus({ preventScroll: true });
  }

  function draw() {
    const n = page.state.tour;
    const stop = STOPS[n - 1];
    node.hidden = !stop;
    if (!stop) return;
    const text = (key) => marked(say(`tour.${n}.${key}`, values));
    const offered = offeredStops(page);
    const here = { n: offered.indexOf(n) + 1, all: offered.length };
    const place = element("p", { class: "line" }, say("tour.place", here));
    place.append(page.notebook(stop.stem));
    node.setAttribute("aria-label", say("tour"));
    node.classList.toggle("answered", Boolean(answered));
    node.replaceChildren(
      place,
      dots(here),
      element("h2", {}, ...text("title")),
      element("p", { class: "see" }, ...text("see")),
      element("h3", {}, say("tour.predict")),
      element("p", { class: "ask" }, ...text("ask")),
      element(
        "div",
        { class: "options" },
        ...["a", "b", "c"].map((key, i) => option(i, text(key))),
      ),
      verdict(text),
      buttons(n),
    );
  }

  function option(i, text) {
    const kind = !answered
      ? ""
      : i === answered.right
        ? "right"
        : i === answered.choice
          ? "wrong"
          : "rest";
    const shape = { id: `option-${i}`, class: `option ${kind}`, disabled: Boolean(answered) };
    return element("button", { ...shape, onclick: () => answer(i) }, ...text);
  }

  function verdict(text) {
    const node = element("p", { class: "verdict", id: "verdict", "aria-live": "polite" });
    if (!answered) return node;
    const said = say(answered.choice === answered.right ? "tour.yes" : "tour.no");
    const space = page.state.lang === "zh" ? "" : " ";
    node.append(element("b", {}, said), space, ...text("because"));
    return node;
  }

  function buttons(n) {
    const offered = offeredStops(page);
    const before = offered[offered.indexOf(n) - 1];
    const after = offered[offered.indexOf(n) + 1];
    const back = { id: "tour-back", class: "quiet", disabled: !before, onclick: () => open(before) };
    const next = { id: "tour-next", class: "strong", onclick: () => open(after ?? 0) };
    const leave = { id: "tour-leave", class: "quiet", onclick: () => open(0) };
    return element(
      "div",
      { class: "tour-buttons" },
      element("button", leave, say("tour.leave")),
      element("button", back, say("tour.back")),
      element("button", next, say(after ? "tour.next" : "tour.end")),
    );
  }

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && page.state.tour) open(0);
  });
  const update = () => {
    draw();
    if (page.state.tour) byId(lit)?.classList.add("lit");
  };
  return { node, open, update };
}

function dots({ n, all }) {
  const marks = Array.from({ length: all }, (_, i) =>
    element("i", { class: i + 1 === n ? "here" : i + 1 < n ? "seen" : "" }),
  );
  return element("div", { class: "dots", "aria-hidden": true }, ...marks);
}

let lit = ""; // the id of the part that is lit

function unlight() {
  lit = "";
  for (const node of document.querySelectorAll(".lit")) node.classList.remove("lit");
}

function light(id) {
  unlight();
  lit = id;
  const node = byId(id);
  if (!node) return;
  node.classList.add("lit");
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  node.scrollIntoView({ block: "nearest", behavior: calm ? "auto" : "smooth" });
}
