// The head of the page: what it shows, which view of it, the search, and a few buttons.
import { h, choices, visible } from "./dom.js";
import { answerFacts } from "./answer.js";
import { deviceFacts } from "./device.js";

const TABS = [["model", "Model", "the whole model in one picture (v)"], ["walk", "Walk", "step by step, from the input to the loss (w)"], ["attention", "Attention", "all heads of all layers (a)"], ["positions", "Positions", "the table of positions (o)"], ["what-if", "What if", "change something, and see what follows (i)"], ["why", "Why", "what the answer is made of (y)"]];
const DEVICE = ["device", "Device", "the device’s own numbers beside these (d)"];
const DIRECTIONS = [["forward", "Forward", "from the input to the loss"], ["backward", "Backward", "the gradient, from the loss to the input (b)"]];

export function header({ trace, state }, { read, search, turnTheme, showKeys }) {
  const tabs = choices("View", trace.device ? [...TABS, DEVICE] : TABS, state.get().tab, (tab) => state.set({ tab }));
  const direction = choices("Direction", DIRECTIONS, state.get().mode, (mode) => state.set({ mode }));
  const copied = h("span", { class: "copied", role: "status" });
  const facts = [trace.run || trace.model, `${trace.model}, ${trace.parameters.toLocaleString("en")} parameters`, ...answerFacts(trace), ...deviceFacts(trace)];
  const copy = async () => {
    copied.textContent = await navigator.clipboard?.writeText(location.href).then(() => "copied", () => "see the address") ?? "see the address";
    setTimeout(() => (copied.textContent = ""), 2000);
  };
  const button = (words, title, onclick) => h("button", { type: "button", class: "icon", title, "aria-label": title, onclick }, words);

  const element = h("header", { class: "top" },
    h("div", { class: "title" },
      h("p", { class: "brand" }, "glassformer"),
      h("h1", { title: trace.input.name }, nameOf(trace.input)),
      h("p", { class: "facts" }, facts.map((fact, i) => [i ? " · " : null, h("span", {}, fact)]))),
    h("div", { class: "bar" }, tabs, direction, read, search,
      h("div", { class: "buttons" },
        button("Link", "Copy a link to this view", copy),
        button("◐", "Light or dark (t)", turnTheme),
        button("?", "Keys (?)", showKeys), copied)));
  return { element, update: ({ mode, tab }) => { direction.choose(mode); tabs.choose(tab); } };
}

function nameOf({ name }) {
  return visible(name.replaceAll("\n", " ")).replaceAll("·", " ").slice(0, 80);
}
