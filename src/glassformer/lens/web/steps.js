// The walk: one step at a time, or a tensor that no step shows, and the way to its neighbours.
import { h } from "./dom.js";
import { card, stepView } from "./step.js";

export function stepsView(scene, on, next) {
  const { trace } = scene;
  const { step: id, tensor } = scene.state.get();
  const step = trace.steps.find((one) => one.id === id);
  const view = step ? stepView(trace, step, scene.settings(), on) : h("article", { class: "step" });
  let target = tensor && [...view.querySelectorAll("[data-tensor]")].find((one) => one.dataset.tensor === tensor);
  if (tensor && !target) {
    target = card(trace, tensor, scene.settings(), on);
    view.prepend(h("header", {}, h("p", { class: "where" }, "tensor"), h("h2", {}, tensor)), h("section", { class: "cards" }, target));
  }
  if (target) {
    target.classList.add("found-card");
    requestAnimationFrame(() => target.scrollIntoView({ block: "center" }));
  }
  return h("div", { class: "walk" }, view, h("nav", { class: "steps", "aria-label": "Neighbouring steps" },
    h("button", { type: "button", class: "plain-button", onclick: () => next(-1) }, "← Previous"),
    h("button", { type: "button", class: "plain-button", onclick: () => next(1) }, "Next →")));
}
