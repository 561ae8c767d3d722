// The way from input to loss as a row of stations; backward it runs the other way.
import { h } from "./dom.js";

export function stepper(steps, state, choose) {
  const rail = h("div", { class: "rail" });
  const element = h("nav", { class: "track", "aria-label": "Steps of the model" }, rail);
  let buttons = [];

  // The ends fade where there is more.
  function fade() {
    rail.classList.toggle("before", rail.scrollLeft > 4);
    rail.classList.toggle("after", rail.scrollLeft + rail.clientWidth < rail.scrollWidth - 4);
  }
  rail.addEventListener("scroll", fade, { passive: true });
  new ResizeObserver(fade).observe(rail);

  function draw() {
    const { mode, step } = state.get();
    const order = mode === "backward" ? [...steps].reverse() : steps;
    const groups = [];
    for (const one of order) {
      const where = one.where.match(/^.*\d/)?.[0] ?? one.where; // what lies inside a layer of a block stands in that block
      if (groups.at(-1)?.where !== where) groups.push({ where, steps: [] });
      groups.at(-1).steps.push(one);
    }
    buttons = [];
    rail.replaceChildren(h("ol", {}, groups.map((group) => h("li", { class: group.where ? "group" : "group outside" },
      h("span", { class: "group-name" }, group.where || "\u00a0"),
      h("div", { class: "stations" }, group.steps.map((one) => {
        const button = h("button", { type: "button", "data-step": one.id, "aria-current": one.id === step ? "step" : false, onclick: () => choose(one.id), title: `${one.title} (${one.id})` }, one.short);
        buttons.push(button);
        return button;
      }))))));
    const current = buttons.find((button) => button.dataset.step === step);
    if (current) rail.scrollLeft = current.offsetLeft - rail.clientWidth / 2 + current.clientWidth / 2;
    fade();
  }

  function next(by) {
    const at = buttons.findIndex((button) => button.dataset.step === state.get().step);
    const to = buttons[Math.min(Math.max(at + by, 0), buttons.length - 1)];
    if (to) choose(to.dataset.step);
  }

  draw();
  return { element, draw, next };
}
