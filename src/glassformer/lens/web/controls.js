// How attention is looked at: layer, head, mask and temperature.
import { h, choices } from "./dom.js";
import { isChanged } from "./softmax.js";

const SELF = ["self", "self", "every token sees every token"];
const CAUSAL = ["causal", "causal", "a token sees itself and what came before"];

export function attentionControls({ state, layers, layer: chosen, head, settings, chooseLayer }) {
  const layer = chosen();
  const now = state.get();
  const heads = Array.from({ length: layer.heads }, (_, i) => [i, String(i), `head ${i}`]);
  const select = h("select", { "aria-label": "Attention layer", onchange: () => chooseLayer(select.value) },
    layers.map((one) => h("option", { value: one.name, selected: one === layer }, one.title)));
  const slider = h("input", { type: "range", min: -3, max: 3, step: 0.25, value: Math.log2(now.temperature), id: "temperature", "aria-label": "Temperature of the softmax" });
  const degrees = h("output", { for: "temperature" }, String(now.temperature));
  const changed = h("p", { class: "small changed" });
  slider.addEventListener("input", () => state.set({ temperature: Number((2 ** Number(slider.value)).toPrecision(3)) }));

  const element = h("section", { class: "attention" },
    h("h2", {}, "Attention"),
    h("div", { class: "fields" },
      layers.length > 1 ? field("Layer", select) : null,
      field("Head", choices("Head", heads, head(), (one) => state.set({ head: one }))),
      layer.square ? field("Mask", choices("Mask", [SELF, CAUSAL], now.mask || layer.mask, (mask) => state.set({ mask: mask === layer.mask ? "" : mask }))) : null,
      field("Temperature", slider, degrees)),
    changed);
  // While the slider is held it must not be replaced: what depends on it is written anew.
  element.update = () => {
    degrees.textContent = String(state.get().temperature);
    changed.textContent = isChanged(layer, settings()) ? "Patterns are worked out again in this page; all other numbers stay those of the run." : "";
  };
  element.update();
  return element;
}

function field(label, control, more) {
  return h("div", { class: "field" }, h("span", { class: "label" }, label), control, more);
}

// The same controls after a change, with the focus where it was.
export function renewed(old, scene) {
  const focused = old.contains(document.activeElement) ? document.activeElement.closest("[aria-label]")?.getAttribute("aria-label") : null;
  const fresh = attentionControls(scene);
  old.replaceWith(fresh);
  const group = focused && fresh.querySelector(`[aria-label="${CSS.escape(focused)}"]`);
  (group?.querySelector("[aria-checked=true]") ?? group)?.focus();
  return fresh;
}
