// One step of the walk: its formulas, and its tensors as heat maps.
import { choices, h } from "./dom.js";
import { axisName } from "./axes.js";
import { withGlossary } from "./glossary.js";
import { labelOf, matrix, partOf, withNumbers } from "./data.js";
import { figure } from "./figure.js";
import { heatmap } from "./heatmap.js";
import { isChanged, patternOf } from "./softmax.js";

export function stepView(trace, step, settings, on) {
  const backward = settings.mode === "backward";
  const names = (backward ? step.gradients : step.values).filter((name) => trace.tensors[name]);
  const weights = step.weights.map((name) => (backward ? trace.tensors[name]?.gradient : name)).filter((name) => trace.tensors[name]);
  const formulas = backward ? step.backward : step.forward;
  const [shown, repeats] = split(trace, names);
  const short = (name) => (step.id && name.startsWith(`${step.id}.`) ? name.slice(step.id.length + 1) : name.split(".").at(-1));
  return h("article", { class: "step" },
    h("header", {},
      step.where ? h("p", { class: "where" }, step.where) : null,
      h("h2", {}, step.title),
      step.about ? h("p", { class: "about" }, withGlossary(step.about)) : null),
    formulas.length ? h("section", { class: "formulas" }, h("h3", {}, backward ? "Backward" : "Forward"),
      h("ul", {}, formulas.map((formula) => h("li", { class: isProse(formula) ? "prose" : "" }, formula)))) : null,
    shown.length ? h("section", { class: "cards" }, shown.map((name) => card(trace, name, settings, on, short(name)))) : null,
    repeats.length ? h("p", { class: "repeats" }, "The same numbers again: ", repeats.map(([name, same], i) =>
      [i ? ", " : "", h("code", {}, short(name)), " = ", h("button", { class: "link", type: "button", onclick: () => on.go(same) }, h("code", {}, same))])) : null,
    !shown.length && !weights.length ? h("p", { class: "hint" }, backward ? "Nothing is named here on the way back." : "Nothing is named here.") : null,
    weights.length ? h("section", {}, h("h3", { class: "section" }, backward ? "What the weights receive" : "Weights"),
      h("div", { class: "cards" }, weights.map((name) => card(trace, name, settings, on, short(name))))) : null);
}

// Said in words, not as `name = …`.
function isProse(formula) {
  return !/^[\w']+(, ?[\w']+)*(\[[^\]]*\])? =/.test(formula);
}

// Names to draw, and names whose numbers are drawn already: here, or in an earlier step.
function split(trace, names) {
  const groups = new Map();
  for (const name of names) {
    const { same, shape } = trace.tensors[name];
    const source = same && String(trace.tensors[same].shape) === String(shape) ? same : name;
    groups.set(source, [...(groups.get(source) ?? []), name]);
  }
  const shown = [];
  const repeats = [];
  for (const [source, group] of groups) {
    const elsewhere = !names.includes(source) && groups.size > 1;
    const drawn = elsewhere ? source : group.reduce((best, name) => (name.split(".").length < best.split(".").length ? name : best));
    if (!elsewhere) shown.push(drawn);
    repeats.push(...group.filter((name) => name !== drawn).map((name) => [name, drawn]));
  }
  return [shown, repeats];
}

export function card(trace, name, settings, on, short = name) {
  const tensor = trace.tensor(name);
  const layer = trace.attention.find((one) => name === `${one.name}.pattern`);
  const changed = layer && isChanged(layer, settings);
  const recorded = matrix(tensor, settings);
  const view = changed ? withNumbers(recorded, patternOf(trace, layer, recorded.of.at, settings)) : recorded;
  const part = partOf(trace, tensor, view);
  const [rowName, columnName] = axesOf(view);
  const picture = heatmap({ title: part ? `${name}, ${part}` : name, view, rowName, columnName, part });
  const drawn = figure(picture, {
    tools: "apart",
    onPoint: (cell) => on.point(tensor, view, cell),
    onPick: (cell) => on.pick(tensor, view, cell),
    describe: (cell) => `${name}, row ${labelOf(trace, tensor, view.rowAxis, cell.row)}, column ${labelOf(trace, tensor, view.columnAxis, cell.column)}: ${view.at(cell.row, cell.column)}`,
  });
  const wide = view.columns > 100 && view.columns > 1.6 * view.rows;
  const element = h("section", { class: wide ? "card wide" : "card", id: `tensor-${name}`, "data-tensor": name },
    h("header", {},
      h("h4", { title: name }, short), drawn.tools),
    h("p", { class: "shape", title: `${rowName || "rows"} × ${columnName || "columns"}` }, shapeOf(tensor, view, part)),
    h("p", { class: "equation" }, changed ? changedNote(settings) : tensor.equation || name),
    h("div", {}, chooser(trace, tensor, view, on), drawn.element));
  element.figure = drawn;
  element.mark = (places) => drawn.mark(places.filter((place) => place.tensor === name).map((place) => inView(view, place)).filter(Boolean));
  return element;
}

// Which gate or channel is shown; heads are chosen beside the input.
function chooser(trace, tensor, { of }, on) {
  if (!of || ["H", "J"].includes(of.axis)) return null;
  const options = Array.from({ length: of.count }, (_, i) => [i, labelOf(trace, tensor, of.axis, i)]);
  return choices(axisName(of.axis) || "part", options, of.at, on.choose);
}

// A place in the numbers as a place in the heat map; null where another head is shown.
function inView(view, { row, column, head }) {
  return !view.of || head == null || head === view.of.at ? { row, column } : null;
}

// Frames around the cell that is kept, and around the numbers that made the one that is shown.
export function markMade(root, places, kept) {
  const all = [...(places || []), ...(kept ? [{ tensor: kept.tensor.name, ...kept.cell }] : [])];
  root.querySelectorAll(".card").forEach((one) => one.mark?.(all));
}

// What rows and columns are.
function axesOf({ rowAxis, columnAxis }) {
  return rowAxis === "T" && columnAxis === "S" ? ["queries", "keys"] : [axisName(rowAxis, true), axisName(columnAxis, true)];
}

// `49 × 16 · head 0 of 4`
function shapeOf({ shape }, view, part) {
  if (!shape.length) return "one number";
  return [shape.length === 1 ? `${shape[0]} numbers` : `${view.rows} × ${view.columns}`, part ? `${part} of ${view.of.count}` : ""].filter(Boolean).join(" · ");
}

function changedNote({ mask, temperature }) {
  const words = [mask ? `${mask} mask` : "", temperature !== 1 ? `temperature ${temperature}` : ""].filter(Boolean);
  return `worked out again in this page: ${words.join(", ")}`;
}
