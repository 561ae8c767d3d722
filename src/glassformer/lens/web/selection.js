// What is asked of every run at once: layer, head, direction, and the patch or token that is pointed at.
import { choices, h } from "./dom.js";

export function openSelection(onChange) {
  const chosen = { layer: "", head: 0, mode: "forward", mask: "", temperature: 1 };
  let pinned = null;
  let hovered = null;
  const element = h("section", { class: "asking", "aria-label": "Attention" });
  let layers = [];

  // Of another run: the layer of the same name, or else at the same place.
  function layerOf(trace) {
    const at = layers.findIndex((one) => one.name === chosen.layer);
    return trace.attention.find((one) => one.name === chosen.layer) ?? trace.attention[Math.min(Math.max(at, 0), trace.attention.length - 1)];
  }

  function set(changes) {
    Object.assign(chosen, changes);
    draw();
    onChange(true);
  }

  // The choices of the first run's layers.
  function offer(trace) {
    const same = JSON.stringify(trace.attention) === JSON.stringify(layers);
    layers = trace.attention;
    if (!same) draw();
  }

  function draw() {
    const focused = element.contains(document.activeElement) ? document.activeElement.closest("[aria-label]").getAttribute("aria-label") : null;
    const layer = layers.length ? layerOf({ attention: layers }) : null;
    const select = h("select", { "aria-label": "Attention layer", onchange: () => set({ layer: select.value }) },
      layers.map((one) => h("option", { value: one.name, selected: one === layer }, one.title)));
    const field = (label, control) => h("div", { class: "asked" }, h("span", { class: "label" }, label), control);
    element.replaceChildren(...(layer ? [
      layers.length > 1 ? field("Layer", select) : null,
      layer.heads > 1 ? field("Head", choices("Head", Array.from({ length: layer.heads }, (_, i) => [i, String(i), `head ${i}`]), headIn(layer), (head) => set({ head }))) : null,
      field("Direction", choices("Direction", [["forward", "Forward", "the attention weights of a patch or token"], ["backward", "Backward", "how the loss pulls at that (b)"]], chosen.mode, (mode) => set({ mode }))),
    ].filter(Boolean) : []));
    element.hidden = !layer;
    if (focused) {
      const again = element.querySelector(`[aria-label="${CSS.escape(focused)}"]`) ?? element.querySelector("[role=radiogroup]");
      (again?.querySelector("[aria-checked=true]") ?? again)?.focus();
    }
  }

  const headIn = (layer) => Math.min(chosen.head, layer.heads - 1);
  return {
    element, offer, set, layerOf, headIn,
    settings: () => chosen,
    turn(by) {
      if (!layers.length) return;
      const at = layers.indexOf(layerOf({ attention: layers }));
      set({ layer: layers[(at + by + layers.length) % layers.length].name });
    },
    // A token of one run's input: { token, input }, or null.
    point(to) { hovered = to; onChange(false); },
    pin(to) { pinned = to; onChange(false); },
    forget() { pinned = hovered = null; },
    queryOf: (trace, layer) => tokenIn(hovered ?? pinned, trace, layer),
  };
}

// The token of this trace where another input's token lies: patches by their place, tokens by their number.
function tokenIn(point, trace, layer) {
  const { grid, first = 0 } = trace.input;
  const count = (trace.sequences[layer?.queries ?? "tokens"] ?? []).length;
  if (!grid) return point && !point.input.grid ? Math.min(point.token, count - 1) : count - 1;
  const middle = first + Math.floor((grid[0] - 1) / 2) * grid[1] + Math.floor(grid[1] / 2);
  if (!point?.input.grid) return middle;
  const from = point.input;
  if (point.token < (from.first ?? 0)) return first ? Math.min(point.token, first - 1) : middle;
  const at = point.token - (from.first ?? 0);
  const along = (place, many, all) => Math.floor(((place + 0.5) / many) * all);
  return first + along(Math.floor(at / from.grid[1]), from.grid[0], grid[0]) * grid[1] + along(at % from.grid[1], from.grid[1], grid[1]);
}
