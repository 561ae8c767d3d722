// Reading mode: through the model forward, and back, one step at a time, with one sentence for each.
import { h } from "./dom.js";
import { withGlossary } from "./glossary.js";

const PAUSE = 3200; // milliseconds for a step, while it plays

// A step of the walk in one sentence, from what its layer says of itself and from its shapes.
export function sentenceOf(trace, step, mode) {
  const name = step.where ? `${step.where} · ${step.short}` : step.short;
  const out = [...step.values].reverse().find((one) => trace.tensors[one]);
  const shape = out ? trace.tensors[out].shape.join(" × ") || "one number" : "";
  if (mode === "forward") return `${name}: ${lowered(step.about || step.title)}${shape ? ` What comes out: ${shape}.` : ""}`;
  const weights = step.weights.length;
  const received = weights ? `${weights === 1 ? "its weight receives its gradient" : `its ${weights} weights receive their gradients`}, and ` : "";
  const what = step.gradients.length ? `the gradient comes back through it: ${received}what remains goes on to the step before.` : "the gradient passes on to the step before.";
  return `${name}, ${step.title.toLowerCase()}: ${what}`;
}

const lowered = (sentence) => `${sentence.replace(/\.?$/, "")}.`;

// `mark(step)`: it is the one that is read; null when nobody reads.
export function readingBar(scene, mark) {
  const { trace, state } = scene;
  const count = trace.steps.length;
  const all = [...trace.steps.map((step) => [step, "forward"]), ...[...trace.steps].reverse().map((step) => [step, "backward"])];
  let timer = 0;
  const told = h("p", { class: "sentence", "aria-live": "polite" });
  const place = h("span", { class: "place" });
  const button = (words, title, onclick) => h("button", { type: "button", class: "icon", title, "aria-label": title, onclick }, words);
  const play = button("▶", "Play (r)", () => toggle());
  const reader = h("div", { class: "reader-open" }, button("‹", "Step back", () => go(-1)), play, button("›", "Step on", () => go(1)), place, told, button("×", "Stop reading", () => close()));
  const opener = h("button", { type: "button", class: "plain-button", title: "Read the model step by step, forward and back, one sentence each (r)", onclick: () => { state.set({ read: 1 }); toggle(true); } }, "▶ Read");
  const element = h("div", { class: "reader", role: "region", "aria-label": "Reading mode" }, reader);

  function go(by) {
    toggle(false);
    step(by);
  }

  function step(by) {
    const next = Math.min(Math.max(state.get().read + by, 1), all.length);
    if (next === state.get().read && by > 0) toggle(false);
    state.set({ read: next, mode: all[next - 1][1] });
  }

  function toggle(on = !timer) {
    clearInterval(timer);
    timer = on ? setInterval(() => (element.isConnected ? step(1) : toggle(false)), PAUSE) : 0;
    if (on && !state.get().read) state.set({ read: 1, mode: "forward" });
    play.textContent = timer ? "❚❚" : "▶";
    play.setAttribute("aria-label", timer ? "Pause (r)" : "Play (r)");
  }

  function close() {
    toggle(false);
    state.set({ read: 0 });
  }

  function draw() {
    const at = state.get().read;
    opener.hidden = at > 0;
    reader.hidden = !at;
    if (!at) return mark(null);
    const [one, mode] = all[at - 1];
    told.replaceChildren(...withGlossary(sentenceOf(trace, one, mode)));
    place.textContent = `${mode === "forward" ? "Forward" : "Backward"} ${mode === "forward" ? at : at - count} of ${count}`;
    mark(one);
  }

  draw();
  return { element, opener, draw, toggle, stop: () => toggle(false), go };
}
