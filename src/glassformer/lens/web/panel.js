// The numbers of one cell: its value, what made it, and its gradient.
import { h, number, visible } from "./dom.js";
import { axisName } from "./axes.js";
import { labelOf, partOf } from "./data.js";
import { css, scaleFor } from "./colours.js";
import { deviceNumber } from "./device.js";
import { explain, isEqual } from "./explain.js";
import { attentionOf, isChanged, seenBy } from "./softmax.js";
import { cells } from "./surface.js";
import { theme } from "./figure.js";

const TERMS = 6; // the largest products are shown, the others summed

// `onClose()`: the cell that is kept shall be let go; `go(name)`: to a tensor.
export function openPanel(trace, onClose, go) {
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
      ...deviceLines(tensor, at),
      isGradient ? h("p", { class: "small" }, "A gradient: how much the loss grows when the number grows by one.") : null,
      layer && tensor.axes.includes("H") && tensor.axes.includes("S") && tensor.axes.length === 3 && tensor.axes[0] === "H"
        ? maskLine(layer, settings, cell, view) : null,
      changed ? recomputed(layer, view, cell, settings, at) : madeOf(made, trace, tensor, at, go),
    ].filter(Boolean));
    element.classList.add("filled");
    return made?.places ?? [];
  }

  // The device's number, and by how much it is more or less than the run's.
  function deviceLines(tensor, at) {
    const found = deviceNumber(trace, tensor.name, at);
    if (!found) return [];
    const [other, apart] = found;
    return [pair("device", number(other, digits + 2), "cell-device", other), pair("device − host", number(apart, 2), "cell-apart", apart)];
  }

  function place(tensor, view, { row, column }) {
    const words = [];
    if (view.of) words.push(partOf(trace, tensor, view));
    const isPattern = view.rowAxis === "T" && view.columnAxis === "S";
    const one = (axis, i, name) => {
      const label = labelOf(trace, tensor, axis, i);
      return `${name} ${label === String(i) ? i : `${i} “${visible(label)}”`}`;
    };
    if (view.rows > 1) words.push(one(view.rowAxis, row, isPattern ? "query" : axisName(view.rowAxis) || "row"));
    words.push(one(view.columnAxis, column, isPattern ? "key" : axisName(view.columnAxis) || "column"));
    return words.join(" · ");
  }

  function maskLine(layer, settings, { row, column }, view) {
    const isCausal = (layer.square ? settings.mask || layer.mask : layer.mask) === "causal";
    const sees = (from) => seenBy(trace, layer, settings.mask, view.of.at, from)(column);
    const isFar = layer.square && sees(column); // padding is hidden from itself, too
    const hidden = isCausal && column > row ? "causal: hidden, it comes later" : isFar ? "window: hidden, it is too far away" : "padding: hidden";
    const seen = isCausal ? "causal: seen" : trace.tensors[`${layer.name}.mask`] && layer.mask !== "causal" ? "padding: seen" : "none: every token is seen";
    const words = sees(row) ? seen : hidden;
    return pair("mask", words, "cell-mask");
  }

  function recomputed(layer, view, cell, settings, at) {
    const head = view.of?.at ?? 0;
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

// The numbers that went in, and whether the formula gives the value that is stored.
function madeOf(made, trace, tensor, at, go) {
  if (!made) return null;
  const { product, lines, result } = made;
  const title = !product ? "Made of" : product.b ? `Made of ${product.a.values.length} products` : `Made of ${product.a.values.length} numbers`;
  return h("div", { class: "made" },
    h("h3", {}, title),
    product ? terms(product, go) : null,
    h("table", {}, lines.map(({ text, value, tensor: name }) => line(nameOf(text, name, go), value)), line("result", result, "cell-result")),
    verdict(trace, tensor, at, made));
}

// The largest terms of a product or of a sum over a row.
function terms({ a, b, kind, text, value, at }, go) {
  if (kind === "softmax") return softmaxTerms(a, at, go);
  const all = Array.from(a.values, (x, i) => ({ i, x, y: b ? b.values[i] : 1, product: x * (b ? b.values[i] : 1) }));
  const largest = all.filter(({ product }) => Number.isFinite(product)).sort((one, other) => Math.abs(other.product) - Math.abs(one.product)).slice(0, TERMS);
  const sum = all.reduce((total, { product }) => total + product, 0);
  const left = all.length - largest.length;
  const limit = Math.abs(largest[0]?.product) || 1;
  return [
    strip(a, go), b ? strip(b, go) : null,
    h("table", { class: "terms" },
      h("thead", {}, h("tr", {}, ["", "a", b ? "b" : null, b ? "a · b" : null].filter((head) => head !== null).map((head) => h("th", { scope: "col" }, head)))),
      h("tbody", {}, largest.map(({ i, x, y, product }) => {
        const cell = h("td", { class: "bar" }, number(product, 3));
        cell.style.setProperty("--share", `${(90 * Math.abs(product)) / limit}%`);
        cell.style.setProperty("--shade", css(scaleFor(-1, 1, theme()).colour(product < 0 ? -0.45 : 0.45)));
        return h("tr", {}, h("th", { scope: "row" }, String(i)), b ? [h("td", {}, number(x, 3)), h("td", {}, number(y, 3))] : null, cell);
      }))),
    h("table", {},
      left ? line(`${left} more`, sum - largest.reduce((total, { product }) => total + product, 0)) : null,
      b ? line("sum", value, "cell-sum") : line(text, value, "cell-sum")),
  ];
}

function softmaxTerms(scores, at, go) {
  const largest = Math.max(...scores.values);
  const shares = scores.values.map((score) => Math.exp(score - largest));
  const sum = shares.reduce((total, one) => total + one, 0);
  return [strip(scores, go), h("table", {}, line("score", scores.values[at]), line("largest score in the row", largest),
    line("exp(score − largest)", shares[at]), line("sum of these over the row", sum))];
}

function verdict(trace, tensor, at, made) {
  const value = trace.numberAt(tensor.name, at);
  const equal = isEqual(trace, tensor, value, made);
  return h("p", { class: equal ? "small verdict" : "verdict differs", "data-equal": String(equal) },
    equal ? "✓ equals the stored value" : `✗ the stored value is ${number(value, 6)}`);
}

function line(label, value, name = "") {
  return h("tr", { class: name, "data-value": value }, h("th", { scope: "row" }, label), h("td", {}, number(value, 5)));
}

// Part of a formula; where it is a tensor of the page, a way there.
function nameOf(text, tensor, go) {
  return tensor ? h("button", { type: "button", class: "link", title: `To ${tensor}`, onclick: () => go(tensor) }, text) : text;
}

function strip({ label, tensor, values }, go) {
  let limit = 0;
  for (const value of values) if (Number.isFinite(value)) limit = Math.max(limit, Math.abs(value));
  const { colour } = scaleFor(-limit, limit, theme());
  const canvas = cells(1, values.length, (_, i) => colour(Number.isFinite(values[i]) ? values[i] : 0));
  canvas.className = "strip";
  return h("figure", { class: "vector" }, h("figcaption", {}, nameOf(label, tensor, go)), canvas);
}
