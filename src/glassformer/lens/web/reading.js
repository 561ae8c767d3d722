// Reading mode: through the model forward, and back, one step at a time, with one sentence for each.
import { h } from "./dom.js";
import { withGlossary } from "./glossary.js";

const PAUSE = 3200; // milliseconds for a step, while it plays

// A step of the walk in one sentence, from what its layer says of itself and from its shapes.
export function sentenceOf(trace, step, mode) {
  const name = step.where ? `${step.where} · ${step.short}` : step.short;
  const out = [...step.values].reverse().find((one) => trace.tensors[one]);
  const shape = out ? trace.tensors[out].shape.join(" × ") || "one number" : "";
  const sum = sumIn(trace.overview, step.id);
  const part = sum?.boxes.at(-1);
  if (mode === "forward") {
    const said = sum ? `what ${part.title} (${part.id}) gives is added to the residual stream.` : lowered(step.about || step.title);
    return `${name}: ${said}${shape ? ` What comes out: ${shape}.` : ""}`;
  }
  if (sum) return `${name}, a sum: the gradient goes on as it is, into ${part.title} (${part.id}) and along the residual stream.`;
  return `${name} (${step.title}): ${step.gradients.length ? `the gradient arrives; ${back(trace, step)}` : "the gradient passes on to the step before"}.`;
}

// What becomes of the gradient in a step: where it ends, nothing that was read has one.
function back(trace, { id, weights, gradients }) {
  const many = weights.length;
  const received = many > 1 ? `its ${many} weights receive their gradients, and ` : many ? "its weight receives its gradient, and "
    : gradients.includes(`${id}.demb`) || gradients.includes(`${id}.demb_here`) ? "the table that it reads receives its part, and " : "";
  const ends = id === trace.steps[0].id || `${id}.ids` in trace.tensors || gradients.every((name) => name.endsWith(".dbias"));
  return received + (ends ? "here it ends" : "it goes on to what this step read");
}

// The line of the overview whose sum is this value.
function sumIn(lines, name) {
  for (const line of lines) {
    const found = line.kind === "group" ? sumIn(line.lines, name) : line.kind === "adds" && line.y === name && line.stream && line.added ? line : null;
    if (found) return found;
  }
  return null;
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
