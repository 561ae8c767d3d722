// The numbers that made a number: the formula of its tensor, evaluated for one cell.
import { bind, cell, evaluate, parse, seen } from "./formula.js";

const GROUPS = ["H", "J", "4", "3"]; // heads and gates: as a middle axis, formulas see them first
const REDUCING = ["sum", "mean", "sum_tokens", "mean_tokens", "softmax"];

const isGrouped = ({ axes }) => GROUPS.includes(axes.at(-2));

// A tensor of the trace as formulas see it.
export function asSeen(trace, name) {
  const tensor = trace.tensor(name);
  const { shape, axes } = tensor;
  const read = (window) => {
    if (tensor.need) for (let head = window[0][0]; head < window[0][0] + window[0][1]; head++) tensor.need(head);
    return tensor.data;
  };
  return { tensor, ...seen(shape, isGrouped(tensor), read) };
}

// The formula of a tensor, ready to be evaluated; null where it has none, or where a part of it was left out of the page.
export function formulaOf(trace, tensor) {
  const refs = Object.entries(tensor.refs ?? {});
  if (!tensor.equation || refs.some(([, ref]) => nameOf(ref) && !trace.tensors[nameOf(ref)])) return null;
  const known = new Map(refs.map(([name, ref]) => [name, nameOf(ref) ? asSeen(trace, nameOf(ref)) : ref.value]));
  const left = seen(tensor.shape, isGrouped(tensor));
  return { left, node: bind(parse(tensor.equation), (name) => known.get(name), left.shape) };
}

const nameOf = (ref) => ref.y ?? ref.tensor;

// What stands behind one cell, `at` among all numbers of its tensor:
// { product: { a, b, sum }, terms of the outermost product or sum, or null; lines: [{ text, value, tensor }], the other
// numbers; result; places: where all of these stand }
export function explain(trace, tensor, at) {
  const formula = formulaOf(trace, tensor);
  if (!formula) return null;
  const { node, left } = formula;
  const result = evaluate(node, cell(left.index(at)))[0];
  const found = { product: null, lines: [] };
  const outermost = first(node, (one) => one.op === "@") ?? first(node, (one) => REDUCING.includes(one.name));
  describe(node, outermost, found);
  return { ...found, result, places: leaves(node).map(placeOf) };
}

// The node nearest to the root for which this holds.
function first(root, holds) {
  for (let level = [root]; level.length; level = level.flatMap((one) => one.of)) {
    const found = level.find(holds);
    if (found) return found;
  }
  return null;
}

function describe(node, outermost, found) {
  if (node === outermost) found.product = termsOf(node);
  else if (node.op === "@" || node.tensor || REDUCING.includes(node.name) || (node.op === "name" && !node.of.length)) {
    found.lines.push({ text: node.text, value: node.read(node.window)[0], tensor: node.tensor?.name });
  } else node.of.forEach((one) => describe(one, outermost, found));
}

function termsOf(node) {
  const [a, b] = (node.op === "@" ? node.of : node.of.slice(0, 1)).map((one) => ({ text: one.text, label: labelOf(one), tensor: one.tensor?.name, values: one.read(one.window) }));
  const value = node.read(node.window)[0];
  return { kind: node.op === "@" ? "product" : node.name, text: node.text, a, b, value };
}

// `blocks.0.attn.q[4]` where the numbers stand as they are in one tensor, else the formula of them.
function labelOf(node) {
  const [leaf, ...others] = leaves(node);
  if (!leaf || others.length || node.text.replace("^T", "") !== leaf.text) return node.text;
  const { tensor, row, column } = placeOf(leaf);
  return row == null && column == null ? tensor : `${tensor}[${row ?? ":"}${column == null ? "" : `, ${column}`}]`;
}

function leaves(node) {
  return node.tensor ? (node.window ? [node] : []) : node.of.flatMap(leaves);
}

// Where a window of a tensor stands in its heat map: { tensor, row, column, head }; a whole row where there is no column.
function placeOf({ tensor, window, shape }) {
  const one = (axis) => (window[axis]?.[1] === 1 && (shape[axis] > 1 || window.length < 3) ? window[axis][0] : undefined);
  const rank = window.length;
  if (tensor.axes[2] === "G") return { tensor: tensor.name, row: one(0), column: one(1), head: one(2) };
  const inside = { tensor: tensor.name, row: one(rank - 2), column: one(rank - 1), head: rank > 2 ? one(0) : undefined };
  return tensor.shape.length < 2 ? { ...inside, row: undefined } : inside;
}
