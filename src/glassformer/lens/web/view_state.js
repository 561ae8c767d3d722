// What is looked at: a step that exists, an attention layer, one of its heads, and the token that asks. Links may say
// anything; what they say is made whole here.
import { pathTo } from "./overview.js";
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
    const isLink = values.step || tensor || values.cell; // such a link leads to the walk
    const layer = [values.layer, step?.id].find((name) => layers.some((one) => one.name === name)) ?? "";
    return {
      ...values, tensor, step: step?.id ?? "", layer,
      tab: one(values.tab, isLink ? "walk" : "model", "model", "walk", "attention", "positions", "what-if", "why", ...(trace.device ? ["device"] : [])),
      part: pathTo(trace.overview, values.part).at(-1)?.id ?? "",
      mode: one(values.mode, "forward", "backward"),
      mask: one(values.mask, "", "self", "causal"),
      theme: one(values.theme, "", "light", "dark"),
      look: one(values.look, "", "lines", "matrix"),
      heads: /^\d+(-\d+)*$/.test(values.heads) ? values.heads : "",
      scale: one(values.scale, "", "shared"),
      heat: within(values.heat),
      top_p: values.top_p > 0 && values.top_p <= 1 ? values.top_p : 1,
      read: Math.min(Math.max(Math.floor(values.read), 0), 2 * trace.steps.length),
      group: Math.max(Math.floor(values.group), 0),
      temperature: within(values.temperature),
    };
  }

  function within(temperature) {
    return temperature >= 1 / MOST && temperature <= MOST ? temperature : 1;
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

  // The patch in the middle; of a text the last token, or the first mask.
  function usualToken() {
    const { question, asked } = trace.answer;
    if (question === "mask" && asked.length) return asked[0].place;
    if (question === "next" && state.get().mode === "backward") return Math.max(tokens().length - 2, 0); // behind the last one nothing is right, and there is no gradient
    const { grid, first = 0 } = trace.input;
    return grid ? first + Math.floor((grid[0] - 1) / 2) * grid[1] + Math.floor(grid[1] / 2) : tokens().length - 1;
  }

  // Looking at the attention of one layer, the walk goes along to another.
  function chooseLayer(name, more = {}) {
    state.set({ layer: name, ...(isAttention(state.get().step) ? { step: name, tensor: "" } : {}), ...more });
  }

  return {
    trace, state, layers, layer, head, tokens, pinned, chooseLayer, stepOf,
    chooseStep: (step) => state.set({ tab: "walk", step, tensor: "", ...(isAttention(step) ? { layer: step } : {}) }),
    settings: () => ({ ...state.get(), head: head() }),
    hover: (token) => { hovered = token; },
    isHovered: () => hovered >= 0,
    query: () => (hovered >= 0 ? Math.min(hovered, tokens().length - 1) : pinned()),
  };
}
