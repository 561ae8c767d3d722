// The page: input and attention on one side, the walk in the middle, the numbers of one cell on the other.
import { h } from "./dom.js";
import { matrix, openTrace, withNumbers } from "./data.js";
import { attentionView } from "./attention.js";
import { deviceView } from "./device.js";
import { explain, isEqual } from "./explain.js";
import { redrawAll, theme } from "./figure.js";
import { listen, shortcutsDialog } from "./shortcuts.js";
import { openPanel } from "./panel.js";
import { positionsView } from "./positions.js";
import { asPng, asSvg } from "./save.js";
import { openViewState } from "./view_state.js";
import { searchBox } from "./search.js";
import { openSidebar } from "./sidebar.js";
import { patternOf } from "./softmax.js";
import { markMade } from "./step.js";
import { header } from "./header.js";
import { readingBar } from "./reading.js";
import { pageEngine, serverEngine } from "./what_if_engine.js";
import { whatIfView } from "./what_if.js";
import { whyView } from "./why.js";
import { writeNext, writeReason } from "./forward_write.js";
import { stepper } from "./stepper.js";
import { stepsView } from "./steps.js";
import { overviewView } from "./overview.js";

// Show a trace inside an element. What comes back can show another one: `stop()` first.
// `writer`: how a text goes on in the page (answer.js); `askServer`: who answers "what if"; without one, the page itself does both.
export function start(root, payload, { writer = null, askServer = null } = {}) {
  const trace = openTrace(payload);
  const whatIfEngine = askServer ? serverEngine(trace, askServer) : pageEngine(trace);
  const ending = new AbortController();
  const scene = openViewState(trace, ending.signal);
  const { state, layers } = scene;
  const letGo = () => { state.set({ cell: "" }); rest(); };
  const panel = openPanel(trace, letGo, goTo);
  const middle = h("main", { id: "middle", tabindex: -1 });
  const stations = stepper(trace.steps, state, scene.chooseStep);
  const dialog = shortcutsDialog();
  const search = searchBox(trace, goTo);
  const turnTheme = () => state.set({ theme: theme() === "dark" ? "light" : "dark" });
  const side = openSidebar(scene, () => maps?.redraw(), writer ?? (askServer ? null : { reason: writeReason(trace), next: (ids) => writeNext(trace, ids) }));
  let maps = null;
  let marks = null; // shows the step that is read
  const reader = readingBar(scene, (step) => marks?.(step));
  const top = header(scene, { read: reader.opener, search: search.element, turnTheme, showKeys: () => dialog.showModal() });

  scene.told = () => side.tell(); // what is pointed at has changed
  root.dataset.kind = trace.input.kind;
  if (state.get().theme) document.documentElement.dataset.theme = state.get().theme;
  root.replaceChildren(
    h("a", { class: "skip", href: "#middle", onclick: (event) => { event.preventDefault(); middle.focus(); } }, "To the model"),
    top.element, stations.element, reader.element, h("div", { class: "columns" }, side.element, middle, panel.element), footer(trace), dialog);

  // A cell is pointed at: its numbers, the numbers that made it, and, where its row is a token, the attention weights of that token.
  const on = {
    point(tensor, view, cell) {
      if (!cell) return rest();
      markMade(middle, panel.show(tensor, view, cell, scene.settings()));
      side.ask(view.rowAxis === "T" && view.rows === scene.tokens().length ? cell.row : -1);
    },
    pick: (tensor, view, cell) => state.set({ cell: `${tensor.name}@${cell.row},${cell.column}` }),
    choose: (group) => state.set({ group }),
    ask: (token) => side.ask(token),
    go: goTo,
  };

  // Nothing is pointed at: the cell that was kept.
  function rest() {
    if (scene.isHovered()) side.ask(-1);
    const kept = keptCell();
    if (!kept) panel.rest();
    panel.element.classList.toggle("kept", Boolean(kept)); // where it floats, one that is not kept lets the pointer through
    markMade(middle, kept && panel.show(kept.tensor, kept.view, kept.cell, scene.settings()), kept);
  }

  function keptCell() {
    const [name, place = ""] = state.get().cell.split("@");
    const tensor = trace.tensor(name);
    const [row, column] = place.split(",").map(Number);
    if (!tensor || !Number.isInteger(row) || !Number.isInteger(column)) return null;
    const layer = layers.find((one) => name === `${one.name}.pattern`);
    const recorded = matrix(tensor, scene.settings());
    const view = layer ? withNumbers(recorded, patternOf(trace, layer, recorded.of.at, scene.settings())) : recorded;
    return row >= 0 && column >= 0 && row < view.rows && column < view.columns ? { tensor, view, cell: { row, column } } : null;
  }

  function goTo(name) {
    const backward = ["gradient", "dweight"].includes(trace.tensors[name].kind);
    state.set({ tab: "walk", mode: backward ? "backward" : "forward", step: scene.stepOf(name)?.id ?? "", tensor: name });
  }

  const VIEWS = {
    model: () => overviewView(scene, on),
    walk: () => stepsView(scene, on, stations.next),
    attention: () => attentionView(scene, on),
    positions: () => positionsView(trace, on),
    "what-if": () => whatIfView(scene, whatIfEngine),
    why: () => whyView(scene),
    device: () => deviceView(scene),
  };

  function drawMiddle() {
    const { tab, part } = state.get();
    const view = VIEWS[tab]();
    const focused = middle.contains(document.activeElement) && document.activeElement.closest("[data-part]")?.dataset.part;
    maps = view.maps ?? null;
    marks = view.mark ?? null;
    middle.replaceChildren(view.element ?? view);
    if (focused) middle.querySelector(`button[data-part="${CSS.escape(focused)}"]`)?.focus(); // whoever opens it by key stays there
    root.dataset.tab = tab;
    root.dataset.part = part;
    reader.draw();
    rest();
  }

  // Drawn once, however many changes come before the next frame.
  let waiting = false;
  function drawSoon() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; if (!ending.signal.aborted) drawMiddle(); });
  }

  state.onChange((now, changed) => {
    const has = (...keys) => keys.some((key) => changed.has(key));
    if (has("theme")) document.documentElement.dataset.theme = now.theme;
    top.update(now);
    side.update(changed);
    if (has("step", "mode", "tab")) stations.draw();
    if (has("tab", "step", "mode", "part", "head", "look", "heads", "scale", "group", "layer", "mask", "temperature", "tensor")) drawSoon();
    if (has("step", "tab")) window.scrollTo({ top: 0 });
    if (has("read")) reader.draw();
    if (has("cell")) rest();
    if (has("theme")) { redrawAll(); rest(); }
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { redrawAll(); rest(); }, { signal: ending.signal });

  const turnLayer = (by) => {
    const at = layers.indexOf(scene.layer());
    if (layers.length) scene.chooseLayer(layers[(at + by + layers.length) % layers.length].name);
  };
  const turnMask = () => {
    const layer = scene.layer();
    if (layer?.square) state.set({ mask: state.get().mask ? "" : layer.mask === "causal" ? "self" : "causal" });
  };
  listen({
    n: () => stations.next(1), p: () => stations.next(-1), ",": () => turnLayer(-1), ".": () => turnLayer(1),
    b: () => state.set({ mode: state.get().mode === "forward" ? "backward" : "forward" }),
    m: turnMask, t: turnTheme, Escape: letGo, "/": () => search.focus(), "?": () => dialog.showModal(),
    head: (head) => { if (head < (scene.layer()?.heads ?? 0)) state.set({ head }); },
    r: () => { state.set({ tab: "model" }); reader.toggle(); }, v: () => state.set({ tab: "model" }), w: () => state.set({ tab: "walk" }), a: () => state.set({ tab: "attention" }), o: () => state.set({ tab: "positions" }),
    i: () => state.set({ tab: "what-if" }), y: () => state.set({ tab: "why" }), d: () => state.set({ tab: trace.device ? "device" : state.get().tab }),
  }, ending.signal);

  side.draw();
  drawMiddle();
  stations.draw();
  return {
    trace, state, asSvg, asPng, ready: performance.now(), // milliseconds after the page was asked for
    again: (options) => { ending.abort(); return start(root, payload, options); },
    stop: () => { ending.abort(); reader.stop(); },
    explain: (name, at) => explain(trace, trace.tensor(name), at),
    isEqual: (name, at) => isEqual(trace, trace.tensor(name), trace.numberAt(name, at), explain(trace, trace.tensor(name), at)),
    engine: whatIfEngine, writeNext: (ids) => writeNext(trace, ids),
    figureOf: (name) => document.getElementById(`tensor-${name}`)?.figure,
  };
}

function footer(trace) {
  const kept = trace.weights === "none" ? " Weights were left out (--weights none)." : "";
  const derived = Object.values(trace.tensors).filter((one) => one.derived && one.shape.length === 2).length;
  const worked = derived ? ` ${derived} large tensors (gradients of weights) are worked out in this page, by the formula that stands beside them.` : "";
  const exact = trace.half ? "Numbers in this file have 16 bits: about three digits are exact. What the page computes with (weights, inputs) has 32 where it is small enough." : "Every number in this file is the model’s own, in 32 bits.";
  return h("footer", {}, exact, kept, worked, trace.left_out.length ? ` Too large for a page, left out: ${trace.left_out.join(", ")}.` : "");
}

const written = document.getElementById("trace");
if (written) window.glassformer = start(document.getElementById("view"), JSON.parse(written.textContent));
