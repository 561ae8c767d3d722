// The numbers of one cell: its value, what made it, and its gradient.
import { h, number, visible } from "./dom.js";
import { labelOf } from "./data.js";
import { css, scaleFor } from "./colours.js";
import { explain } from "./explain.js";
import { attentionOf, isChanged, seenBy } from "./softmax.js";
import { cells } from "./surface.js";
import { theme } from "./figure.js";

const TERMS = 6; // the largest products are shown, the others summed
const AXES = { T: "token", S: "token", H: "head", D: "dimension", C: "dimension", Y: "row", X: "column", "": "row" };

// `onClose()`: the cell that is kept shall be let go.
export function openPanel(trace, onClose) {
  const body = h("div", { class: "panel-body", "aria-live": "polite" });
  const close = h("button", { type: "button", class: "close", title: "Close (Escape)", "aria-label": "Close", onclick: onClose }, "×");
  const element = h("aside", { class: "panel", "aria-label": "Numbers of the chosen cell" }, close, body);
  const digits = trace.half ? 3 : 5;
  const rest = () => {
    element.classList.remove("filled");
    body.replaceChildren(
      h("h2", {}, "One number"),
      h("p", { class: "hint" }, "Point at a cell, or move with the arrow keys, to see its value, the numbers that made it, and its gradient."),
      h("p", { class: "hint" }, "Click to keep it here and in the link. Double click, + and − look closer."));
  };
  rest();

  // `settings` are those of attention. Gives back the places of the numbers that made this one.
  function show(tensor, view, cell, settings) {
    const at = view.index(cell.row, cell.column);
    const layer = trace.attention.find((one) => tensor.name.startsWith(`${one.name}.`));
    const changed = layer && tensor.name === `${layer.name}.pattern` && isChanged(layer, settings);
    const value = view.at(cell.row, cell.column);
    const gradient = tensor.gradient && trace.tensor(tensor.gradient);
    const made = explain(trace, tensor, at);
    const isGradient = tensor.kind === "gradient" || tensor.kind === "dweight";
    body.replaceChildren(...[
      h("p", { class: "cell-name" }, tensor.name),
      h("p", { class: "cell-place" }, place(tensor, view, cell)),
      h("p", { class: "cell-value", "data-value": value }, number(value, digits + 1)),
      tensor.equation ? h("p", { class: "cell-equation" }, tensor.equation) : null,
      gradient ? pair("gradient", number(trace.numberAt(gradient.name, at), digits), "cell-gradient", trace.numberAt(gradient.name, at),
        "How much the loss grows when this number grows by one.") : null,
      isGradient ? h("p", { class: "small" }, "A gradient: how much the loss grows when the number grows by one.") : null,
      layer && tensor.axes.includes("H") && tensor.axes.includes("S") && tensor.axes.length === 3 && tensor.axes[0] === "H"
        ? maskLine(layer, settings, cell, view) : null,
      changed ? recomputed(layer, view, cell, settings, at) : madeOf(made, value),
    ].filter(Boolean));
    element.classList.add("filled");
    return made?.places ?? [];
  }

  function place(tensor, view, { row, column }) {
    const words = [];
    if (view.of) words.push(`${view.columnAxis === "X" ? "channel" : "head"} ${view.of[0]}`);
    const isPattern = view.rowAxis === "T" && view.columnAxis === "S";
    const one = (axis, i, name) => {
      const label = labelOf(trace, tensor, axis, i);
      return `${name} ${label === String(i) ? i : `${i} “${visible(label)}”`}`;
    };
    if (view.rows > 1) words.push(one(view.rowAxis, row, isPattern ? "query" : AXES[view.rowAxis] ?? "row"));
    words.push(one(view.columnAxis, column, isPattern ? "key" : AXES[view.columnAxis] ?? "column"));
    return words.join(" · ");
  }

  function maskLine(layer, settings, cell, view) {
    const visibleHere = cell.column < seenBy(layer, settings.mask, cell.row, view.columns);
    const kind = (layer.square ? settings.mask || layer.mask : layer.mask) === "causal" ? "causal" : "none";
    return pair("mask", kind === "none" ? "none: every token is seen" : visibleHere ? "causal: seen" : "causal: hidden, it comes later", "cell-mask");
  }

  function recomputed(layer, view, cell, settings, at) {
    const [head] = view.of ?? [0];
    const share = attentionOf(trace, layer, head, cell.row, settings)[cell.column];
    const score = trace.numberAt(`${layer.name}.scores`, at);
    return h("div", { class: "made" },
      h("h3", {}, "Worked out again in this page"),
      table([["score", score], ["temperature", settings.temperature], ["share now", share], ["share in the run", trace.numberAt(`${layer.name}.pattern`, at)]]));
  }

  return { element, show, rest };
}

function pair(label, value, name, raw, title) {
  return h("p", { class: `pair ${name}`, title, "data-value": raw }, h("span", {}, label), h("strong", {}, value));
}

function table(rows) {
  return h("table", {}, rows.map(([label, value]) => h("tr", {}, h("th", { scope: "row" }, label), h("td", {}, number(value, 5)))));
}

function madeOf(made, value) {
  if (!made) return null;
  if (made.kind === "parts") {
    return h("div", { class: "made" }, h("h3", {}, "Made of"), table(made.parts),
      made.result === null ? null : h("table", {}, line("together", made.result, "cell-together")),
      made.masked ? h("p", { class: "small" }, "The mask hides it, so its share is 0.") : null);
  }
  const { a, b, scale, plus, plusName } = made;
  const terms = Array.from(a.values, (x, i) => ({ i, x, y: b ? b.values[i] : 1, product: x * (b ? b.values[i] : 1) }));
  const largest = [...terms].sort((one, other) => Math.abs(other.product) - Math.abs(one.product)).slice(0, TERMS);
  const rest = made.sum - largest.reduce((sum, term) => sum + term.product, 0);
  const left = terms.length - largest.length;
  const limit = Math.abs(largest[0]?.product) || 1;
  return h("div", { class: "made" },
    h("h3", {}, b ? `Made of ${terms.length} products` : `Made of ${terms.length} numbers`),
    strip(a), b ? strip(b) : null,
    h("table", { class: "terms" },
      h("thead", {}, h("tr", {}, ["", "a", b ? "b" : null, b ? "a · b" : null].filter((head) => head !== null).map((head) => h("th", { scope: "col" }, head)))),
      h("tbody", {}, largest.map(({ i, x, y, product }) => {
        const cell = h("td", { class: "bar" }, number(product, 3));
        cell.style.setProperty("--share", `${(90 * Math.abs(product)) / limit}%`);
        cell.style.setProperty("--shade", css(scaleFor(-1, 1, theme()).colour(product < 0 ? -0.45 : 0.45)));
        return h("tr", {}, h("th", { scope: "row" }, String(i)), b ? [h("td", {}, number(x, 3)), h("td", {}, number(y, 3))] : null, cell);
      }))),
    h("table", {},
      left ? line(`${left} more`, rest) : null,
      line("sum", made.sum, "cell-sum"),
      scale !== 1 ? line("× scale", scale) : null,
      plusName ? line(`+ ${plusName.split(".").at(-1)}`, plus) : null,
      line("together", made.result, "cell-together"),
    ),
    Math.abs(made.result - value) > 1e-3 * (Math.abs(value) + 1e-3) ? h("p", { class: "small" }, "Not quite the value: numbers are rounded in this file.") : null);
}

function line(label, value, name = "") {
  return h("tr", { class: name, "data-value": value }, h("th", { scope: "row" }, label), h("td", {}, number(value, 5)));
}

function strip({ name, values }) {
  let limit = 0;
  for (const value of values) limit = Math.max(limit, Math.abs(value));
  const { colour } = scaleFor(-limit, limit, theme());
  const canvas = cells(1, values.length, (_, i) => colour(values[i]));
  canvas.className = "strip";
  return h("figure", { class: "vector" }, h("figcaption", {}, name), canvas);
}
