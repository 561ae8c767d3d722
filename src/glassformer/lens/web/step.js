// One step of the walk: its formulas, and its tensors as heat maps.
import { h } from "./dom.js";
import { labelOf, matrix, withNumbers } from "./data.js";
import { figure } from "./figure.js";
import { heatmap } from "./heatmap.js";
import { isChanged, patternOf } from "./softmax.js";

const AXES = { T: "tokens", S: "tokens", D: "head width", C: "width", Y: "rows", X: "columns", "": "" };

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
      step.about ? h("p", { class: "about" }, step.about) : null),
    formulas.length ? h("div", { class: "formulas" }, h("h3", {}, backward ? "Backward" : "Forward"), h("pre", {}, formulas.join("\n"))) : null,
    shown.length ? h("section", { class: "cards" }, shown.map((name) => card(trace, name, settings, on, short(name)))) : null,
    repeats.length ? h("p", { class: "repeats" }, "The same numbers again: ", repeats.map(([name, same], i) =>
      [i ? ", " : "", h("code", {}, short(name)), " = ", h("button", { class: "link", type: "button", onclick: () => on.go(same) }, h("code", {}, same))])) : null,
    !shown.length && !weights.length ? h("p", { class: "hint" }, backward ? "Nothing is named here on the way back." : "Nothing is named here.") : null,
    weights.length ? h("section", {}, h("h3", { class: "section" }, backward ? "What the weights receive" : "Weights"),
      h("div", { class: "cards" }, weights.map((name) => card(trace, name, settings, on, short(name))))) : null);
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
  const recorded = matrix(tensor, settings.head);
  const view = changed ? withNumbers(recorded, patternOf(trace, layer, recorded.of[0], settings)) : recorded;
  const picture = heatmap({
    title: view.of ? `${name}, ${view.columnAxis === "X" ? "channel" : "head"} ${view.of[0]}` : name,
    view, rowName: AXES[view.rowAxis], columnName: AXES[view.columnAxis], part: view.of ? `${view.columnAxis === "X" ? "channel" : "head"} ${view.of[0]}` : "",
  });
  const drawn = figure(picture, {
    onPoint: (cell) => on.point(tensor, view, cell),
    onPick: (cell) => on.pick(tensor, view, cell),
    describe: (cell) => `${name}, row ${labelOf(trace, tensor, view.rowAxis, cell.row)}, column ${labelOf(trace, tensor, view.columnAxis, cell.column)}: ${view.at(cell.row, cell.column)}`,
  });
  const wide = view.columns > 100 && view.columns > 1.6 * view.rows;
  const element = h("section", { class: wide ? "card wide" : "card", id: `tensor-${name}`, "data-tensor": name },
    h("header", {},
      h("h4", { title: name }, short),
      h("span", { class: "shape" }, tensor.shape.join(" × ") || "one number")),
    h("p", { class: "equation" }, changed ? changedNote(settings) : tensor.equation || name),
    drawn.element);
  element.figure = drawn;
  return element;
}

function changedNote({ mask, temperature }) {
  const words = [mask ? `${mask} mask` : "", temperature !== 1 ? `temperature ${temperature}` : ""].filter(Boolean);
  return `worked out again in this page: ${words.join(", ")}`;
}
