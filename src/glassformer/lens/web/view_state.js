// What is looked at: a step that exists, an attention layer, one of its heads, and the token that asks. Links may say
// anything; what they say is made whole here.
import { openUrlState } from "./url_state.js";

const MOST = 64; // temperatures between 1 / 64 and 64

export function openViewState(trace, signal) {
  const layers = trace.attention;
  const state = openUrlState(signal, complete);
  let hovered = -1;

  function complete(values) {
    const one = (value, ...known) => (known.includes(value) ? value : known[0]);
    const tensor = values.tensor in trace.tensors ? values.tensor : "";
    const step = trace.steps.find(({ id }) => id === values.step) ?? (tensor ? stepOf(tensor) : usualStep(values.layer));
    const layer = [values.layer, step?.id].find((name) => layers.some((one) => one.name === name)) ?? "";
    return {
      ...values, tensor, step: step?.id ?? "", layer,
      tab: one(values.tab, "walk", "attention", "positions"),
      mode: one(values.mode, "forward", "backward"),
      mask: one(values.mask, "", "self", "causal"),
      theme: one(values.theme, "", "light", "dark"),
      group: Math.max(Math.floor(values.group), 0),
      temperature: values.temperature >= 1 / MOST && values.temperature <= MOST ? values.temperature : 1,
    };
  }

  function isAttention(step) {
    return layers.some((one) => one.name === step);
  }

  function usualStep(layer) {
    return trace.steps.find(({ id }) => id === layer) ?? trace.steps.find(({ id }) => isAttention(id)) ?? trace.steps[0];
  }

  // The step in which a tensor is shown.
  function stepOf(name) {
    return trace.steps.find(({ values, gradients, weights }) =>
      [...values, ...gradients, ...weights, ...weights.map((weight) => trace.tensors[weight]?.gradient)].includes(name));
  }

  const layer = () => layers.find((one) => one.name === state.get().layer) ?? layers[0];
  const head = () => Math.min(Math.max(Math.floor(state.get().head), 0), Math.max((layer()?.heads ?? 1) - 1, 0));
  const tokens = () => trace.sequences[layer()?.queries ?? "tokens"] ?? [];
  const pinned = () => (state.get().token >= 0 ? Math.min(Math.floor(state.get().token), tokens().length - 1) : usualToken());

  // The patch in the middle; of a text the last token.
  function usualToken() {
    const { grid, first = 0 } = trace.input;
    return grid ? first + Math.floor((grid[0] - 1) / 2) * grid[1] + Math.floor(grid[1] / 2) : tokens().length - 1;
  }

  // Looking at the attention of one layer, the walk goes along to another.
  function chooseLayer(name, more = {}) {
    state.set({ layer: name, ...(isAttention(state.get().step) ? { step: name, tensor: "" } : {}), ...more });
  }

  return {
    trace, state, layers, layer, head, tokens, pinned, chooseLayer, stepOf,
    chooseStep: (step) => state.set({ step, tensor: "", ...(isAttention(step) ? { layer: step } : {}) }),
    settings: () => ({ ...state.get(), head: head() }),
    hover: (token) => { hovered = token; },
    isHovered: () => hovered >= 0,
    query: () => (hovered >= 0 ? Math.min(hovered, tokens().length - 1) : pinned()),
  };
}
