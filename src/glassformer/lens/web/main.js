// The page: input and attention on one side, the walk in the middle, the numbers of one cell on the other.
import { h, choices, visible } from "./dom.js";
import { openTrace, extent, matrix, withNumbers } from "./data.js";
import { answerLine, answerView, showPlace } from "./answer.js";
import { attentionMaps, inputFigures, words } from "./attention.js";
import { explain } from "./explain.js";
import { figure, redrawAll, theme } from "./figure.js";
import { heatmap } from "./heatmap.js";
import { keysDialog, listen } from "./keys.js";
import { openPanel } from "./panel.js";
import { dimensionsPicture, similarity } from "./positions.js";
import { asPng, asSvg } from "./save.js";
import { searchBox } from "./search.js";
import { patternOf } from "./softmax.js";
import { openState } from "./state.js";
import { card, stepView } from "./step.js";
import { track } from "./track.js";

// Show a trace inside an element. What comes back can show another one: `stop()` first.
export function start(root, payload) {
  const trace = openTrace(payload);
  const ending = new AbortController();
  const state = openState(ending.signal);
  const layers = trace.attention;
  const layerOf = () => layers.find((one) => one.name === state.get().layer) ?? layers[0];
  const settings = () => ({ ...state.get(), head: headOf() });
  const headOf = () => Math.min(state.get().head, Math.max((layerOf()?.heads ?? 1) - 1, 0));
  const tokens = () => trace.sequences[layerOf()?.queries ?? "tokens"] ?? [];
  const pinned = () => (state.get().token >= 0 ? Math.min(state.get().token, tokens().length - 1) : usual());
  const usual = () => (trace.input.grid ? (trace.input.first ?? 0) + Math.floor((trace.input.grid[0] - 1) / 2) * trace.input.grid[1] + Math.floor(trace.input.grid[1] / 2) : tokens().length - 1);
  let hovered = -1;
  const query = () => (hovered >= 0 ? hovered : pinned());

  document.documentElement.dataset.kind = trace.input.kind;
  if (state.get().theme) document.documentElement.dataset.theme = state.get().theme;
  if (!trace.steps.some((step) => step.id === state.get().step) && !state.get().tensor) state.set({ step: firstStep().id });

  function firstStep() {
    return trace.steps.find((step) => layers.some((layer) => layer.name === step.id)) ?? trace.steps[0];
  }

  // ---- the side: input, attention, answer
  const side = h("aside", { class: "side", "aria-label": "Input and attention" });
  const answer = answerView(trace);
  let figures = [];
  let caption = null;
  let controls = null;

  function drawSide() {
    const layer = layerOf();
    figures = inputFigures(trace, layer, {
      head: headOf, query, settings,
      onPoint: (cell) => ask(cell ? cell.token : -1),
      onPick: (cell) => state.set({ token: cell.token }),
    });
    caption = h("p", { class: "caption" });
    controls = layer ? attentionControls(layer) : null;
    side.replaceChildren(...[
      h("section", { class: "input" }, h("h2", {}, "Input", figures.length === 1 ? figures[0].tools : null), trace.input.kind === "row" ? h("p", { class: "row" }, trace.input.row.join(", ")) : null,
        figures.length > 1 ? figures.map((one) => [h("p", { class: "text-name" }, one.picture.title, one.tools), h("div", { class: "scroll" }, one.element)]) : h("div", { class: "scroll" }, figures[0]?.element ?? ""), caption),
      controls,
      answer,
    ].filter(Boolean));
    ask(-1);
    requestAnimationFrame(() => showQuery());
  }

  // In a long text, the token that asks is brought into sight.
  function showQuery() {
    const room = figures[0]?.element.parentElement;
    const box = room && figures[0].picture.box?.({ token: pinned() }, room.clientWidth);
    if (box && room.scrollHeight > room.clientHeight) room.scrollTop = box.y - room.clientHeight / 2;
  }

  function ask(token) {
    hovered = token;
    const layer = layerOf();
    if (caption && layer) caption.textContent = words(trace, layer, settings(), query());
    figures.forEach((one) => one.redraw());
    maps?.redraw();
    showPlace(answer, trace, query());
  }

  // Looking at the attention of one layer, the walk goes along to another.
  function chooseLayer(layer, more = {}) {
    const along = layers.some((one) => one.name === state.get().step);
    state.set({ layer, ...(along ? { step: layer, tensor: "" } : {}), ...more });
  }

  function attentionControls(layer) {
    const now = state.get();
    const slider = h("input", { type: "range", min: -3, max: 3, step: 0.25, value: Math.log2(now.temperature), id: "temperature", "aria-label": "Temperature of the softmax" });
    const degrees = h("output", { for: "temperature" }, String(now.temperature));
    slider.addEventListener("input", () => {
      const temperature = Number((2 ** Number(slider.value)).toPrecision(3));
      degrees.textContent = String(temperature);
      state.set({ temperature });
    });
    const field = (label, control, more) => h("div", { class: "field" }, h("span", { class: "label" }, label), control, more);
    const select = h("select", { "aria-label": "Attention layer", onchange: () => chooseLayer(select.value) },
      layers.map((one) => h("option", { value: one.name, selected: one === layer }, one.title)));
    return h("section", { class: "attention" },
      h("h2", {}, "Attention"),
      layers.length > 1 ? field("Layer", select) : null,
      field("Head", choices("Head", Array.from({ length: layer.heads }, (_, i) => [i, String(i), `head ${i}`]), headOf(), (head) => state.set({ head }))),
      layer.square ? field("Mask", choices("Mask", [["self", "self", "every token sees every token"], ["causal", "causal", "a token sees itself and what came before"]], now.mask || layer.mask, (mask) => state.set({ mask: mask === layer.mask ? "" : mask }))) : null,
      field("Temperature", slider, degrees),
      h("p", { class: "small changed" }, now.mask || now.temperature !== 1 ? "Patterns are worked out again in this page; all other numbers stay those of the run." : ""));
  }

  // ---- the middle: walk, maps, positions
  const on = {
    point(tensor, view, cell) {
      if (!cell) return restPanel();
      panel.show(tensor, view, cell, settings());
      const isToken = view.rowAxis === "T" && view.rows === tokens().length;
      ask(isToken ? cell.row : -1);
    },
    pick: (tensor, view, cell) => state.set({ cell: `${tensor.name}@${cell.row},${cell.column}` }),
    go: goTo,
  };
  const panel = openPanel(trace);
  const middle = h("main", { id: "middle", tabindex: -1 });
  const stations = track(trace.steps, state, (step) => state.set({ step, tensor: "", ...(layers.some((one) => one.name === step) ? { layer: step } : {}) }));
  let maps = null;

  function restPanel() {
    if (hovered >= 0) ask(-1);
    const [name, place] = state.get().cell.split("@");
    const tensor = trace.tensor(name);
    if (!tensor || !place) return panel.rest();
    const [row, column] = place.split(",").map(Number);
    const layer = layers.find((one) => name === `${one.name}.pattern`);
    const recorded = matrix(tensor, headOf());
    const view = layer ? withNumbers(recorded, patternOf(trace, layer, recorded.of[0], settings())) : recorded;
    if (row < view.rows && column < view.columns) panel.show(tensor, view, { row, column }, settings());
  }

  function goTo(name) {
    const backward = ["gradient", "dweight"].includes(trace.tensors[name].kind);
    const step = trace.steps.find((one) => [...one.values, ...one.gradients, ...one.weights, ...one.weights.map((weight) => trace.tensors[weight]?.gradient)].includes(name));
    state.set({ tab: "walk", mode: backward ? "backward" : "forward", step: step?.id ?? "", tensor: name });
  }

  function drawMiddle() {
    const now = state.get();
    maps = null;
    middle.replaceChildren(now.tab === "attention" ? attentionTab() : now.tab === "positions" ? positionsTab() : walkTab());
    document.documentElement.dataset.tab = now.tab;
  }

  function walkTab() {
    const { step: id, tensor } = state.get();
    const step = trace.steps.find((one) => one.id === id);
    const view = step ? stepView(trace, step, settings(), on) : h("article", { class: "step" });
    const known = tensor && trace.tensors[tensor];
    let target = known && [...view.querySelectorAll("[data-tensor]")].find((one) => one.dataset.tensor === tensor);
    if (known && !target) {
      target = card(trace, tensor, settings(), on);
      view.prepend(h("header", {}, h("p", { class: "where" }, "tensor"), h("h2", {}, tensor)), h("section", { class: "cards" }, target));
    }
    if (target) {
      target.classList.add("found-card");
      requestAnimationFrame(() => target.scrollIntoView({ block: "center" }));
    }
    return h("div", { class: "walk" }, view, h("nav", { class: "steps", "aria-label": "Neighbouring steps" },
      h("button", { type: "button", class: "plain-button", onclick: () => stations.next(-1) }, "← Previous"),
      h("button", { type: "button", class: "plain-button", onclick: () => stations.next(1) }, "Next →")));
  }

  function attentionTab() {
    maps = layers.length ? attentionMaps(trace, settings, query, (layer, head) => chooseLayer(layer, { head })) : null;
    return h("article", { class: "step" }, h("header", {}, h("h2", {}, "All attention maps"),
      h("p", { class: "about" }, layers.length ? `${words(trace, layers[0], settings(), query(), { short: true })}, in every head of every layer. Point at the input to ask for another.` : "This model has no attention.")),
      maps?.element);
  }

  function positionsTab() {
    const tensor = trace.positions && trace.tensor(trace.positions);
    if (!tensor) return h("article", { class: "step" }, h("h2", {}, "Positions"), h("p", { class: "about" }, "This model has no table of positions."));
    const { grid, first = 0 } = trace.input;
    const count = trace.sequences.tokens.length || tensor.shape[0];
    const over = matrix(tensor);
    const drawn = grid
      ? figure(dimensionsPicture({ title: "Positions: each dimension over the grid", tensor, grid, first }), { onPoint: (cell) => on.point(tensor, over, cell), onPick: (cell) => on.pick(tensor, over, cell) })
      : figure(heatmap({ title: "Positions along the text", view: { ...over, rows: Math.min(count, over.rows) }, rowName: "places", columnName: "dimensions" }), { onPoint: (cell) => on.point(tensor, over, cell), onPick: (cell) => on.pick(tensor, over, cell) });
    const alike = similarity(tensor, count);
    const likeness = { name: "similarity of positions", kind: "value", shape: [alike.rows, alike.columns], axes: ["T", "T"], data: alike.data, equation: "pos[s] · pos[t] / (|pos[s]| |pos[t]|)" };
    const likenessView = { ...matrix(likeness), rowAxis: alike.step === 1 ? "T" : "", columnAxis: alike.step === 1 ? "T" : "" };
    const similar = figure(heatmap({ title: "How alike positions are", view: likenessView, rowName: "places", columnName: "places", range: [Math.min(extent(likenessView)[0], -1e-9), 1] }),
      { onPoint: (cell) => on.point(likeness, likenessView, cell), onPick: () => {} });
    return h("article", { class: "step" },
      h("header", {}, h("h2", {}, "Positions"), h("p", { class: "about" }, `${trace.positions}: ${tensor.shape[0]} places, ${tensor.shape[1]} numbers each. They are added to the tokens, so that attention can tell places apart.`)),
      h("section", {}, h("h3", { class: "section" }, grid ? "Each dimension, over the grid of patches" : "Each dimension, along the text"), drawn.element),
      h("section", { class: "narrow" }, h("h3", { class: "section" }, "How alike two positions are"),
        h("p", { class: "small" }, `The cosine between them${alike.step > 1 ? `, of every ${alike.step}th` : ""}: 1 is the same direction, 0 has nothing in common.`), similar.element));
  }

  // ---- the head
  const direction = choices("Direction", [["forward", "Forward", "from the input to the loss"], ["backward", "Backward", "the gradient, from the loss to the input"]], state.get().mode, (mode) => state.set({ mode }));
  const tabs = choices("View", [["walk", "Walk"], ["attention", "Attention"], ["positions", "Positions"]], state.get().tab, (tab) => state.set({ tab }));
  const search = searchBox(trace, goTo);
  const dialog = keysDialog();
  const turnTheme = () => state.set({ theme: theme() === "dark" ? "light" : "dark" });
  const copied = h("span", { class: "copied", role: "status" });
  const copy = async () => {
    copied.textContent = await navigator.clipboard?.writeText(location.href).then(() => "copied", () => "see the address") ?? "see the address";
    setTimeout(() => (copied.textContent = ""), 2000);
  };
  const head = h("header", { class: "top" },
    h("div", { class: "title" },
      h("h1", {}, h("span", { class: "brand" }, "glassformer"), visibleName(trace.input.name)),
      h("p", {}, `${trace.run || trace.model} · ${trace.model}, ${trace.parameters.toLocaleString("en")} parameters · ${answerLine(trace)}`)),
    h("div", { class: "bar" }, tabs, direction, search.element,
      h("div", { class: "buttons" },
        h("button", { type: "button", class: "icon", title: "Copy a link to this view", "aria-label": "Copy a link to this view", onclick: copy }, "Link"),
        h("button", { type: "button", class: "icon", title: "Light or dark (t)", "aria-label": "Light or dark", onclick: turnTheme }, "◐"),
        h("button", { type: "button", class: "icon", title: "Keys (?)", "aria-label": "Keys", onclick: () => dialog.showModal() }, "?"), copied)));
  const footer = h("footer", {}, [
    trace.half ? "Numbers in this file have 16 bits: about three digits are exact." : "Every number in this file is the model’s own, in 32 bits.",
    trace.left_out.length ? ` Too large for a page, left out: ${trace.left_out.join(", ")}.` : "",
  ].join(""));
  root.replaceChildren(h("a", { class: "skip", href: "#middle", onclick: (event) => { event.preventDefault(); middle.focus(); } }, "To the walk"),
    head, stations.element, h("div", { class: "columns" }, side, middle, panel.element), footer, dialog);

  function visibleName(name) {
    return h("span", { class: "name", title: name }, visible(name.replaceAll("\n", " ")).replaceAll("·", " ").slice(0, 80));
  }

  state.onChange((now, changed) => {
    if (changed.has("theme")) document.documentElement.dataset.theme = now.theme;
    direction.choose(now.mode);
    tabs.choose(now.tab);
    const has = (...keys) => keys.some((key) => changed.has(key));
    if (has("step", "mode")) stations.draw();
    if (has("layer")) drawSide();
    else if (has("head", "mask", "mode", "temperature")) {
      if (!has("temperature") || changed.size > 1) controls = replaced(controls);
      else controls.querySelector(".changed").textContent = now.mask || now.temperature !== 1 ? "Patterns are worked out again in this page; all other numbers stay those of the run." : "";
      ask(hovered);
    } else if (has("token")) ask(-1);
    if (has("tab", "step", "mode", "head", "layer", "mask", "temperature", "tensor")) soon(drawMiddle);
    if (has("step", "tab")) window.scrollTo({ top: 0 });
    if (has("cell", "head", "mask", "temperature")) restPanel();
    if (has("theme")) { redrawAll(); restPanel(); }
  });

  function replaced(old) {
    if (!old) return null;
    const focused = old.contains(document.activeElement) ? document.activeElement.closest("[aria-label]")?.getAttribute("aria-label") : null;
    const fresh = attentionControls(layerOf());
    old.replaceWith(fresh);
    if (focused) fresh.querySelector(`[aria-label="${CSS.escape(focused)}"]`)?.querySelector("[aria-checked=true]")?.focus();
    return fresh;
  }

  // Drawn once, however many changes come before the next frame.
  let waiting = false;
  function soon(action) {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; action(); });
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redrawAll(), { signal: ending.signal });
  const turn = (by) => {
    const at = layers.indexOf(layerOf());
    if (layers.length) chooseLayer(layers[(at + by + layers.length) % layers.length].name);
  };
  listen({
    n: () => stations.next(1), p: () => stations.next(-1),
    b: () => state.set({ mode: state.get().mode === "forward" ? "backward" : "forward" }),
    m: () => { const layer = layerOf(); if (layer?.square) state.set({ mask: state.get().mask ? "" : layer.mask === "causal" ? "self" : "causal" }); },
    head: (head) => { if (head < (layerOf()?.heads ?? 0)) state.set({ head }); },
    ",": () => turn(-1), ".": () => turn(1), "/": () => search.focus(), t: turnTheme, "?": () => dialog.showModal(),
    w: () => state.set({ tab: "walk" }), a: () => state.set({ tab: "attention" }), o: () => state.set({ tab: "positions" }),
  }, ending.signal);
  drawSide();
  drawMiddle();
  restPanel();
  stations.draw();
  return { trace, state, stop: () => ending.abort(), explain: (name, at) => explain(trace, trace.tensor(name), at), asSvg, asPng, figureOf: (name) => document.getElementById(`tensor-${name}`)?.figure };
}

const written = document.getElementById("trace");
if (written) window.glassformer = start(document.getElementById("view"), JSON.parse(written.textContent));
