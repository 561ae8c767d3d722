// The numbers that made a number: the formula of its tensor, evaluated for one cell.
import { isGrouped } from "./axes.js";
import { bind, cell, evaluate, parse, seen } from "./formula.js";

const SUMS = ["softmax", "sum", "mean", "sum_tokens", "mean_tokens", "sum_heads", "sum_to"]; // whose terms are shown
const WHOLE = [...SUMS, "group_sum", "bucket_sum", "pick"]; // shown as one number where they are not the outermost
const EXACT = 2e-4; // of the largest number at work: what float32 may be off after a few operations
const HALF = 2e-2; // of numbers that are stored in 16 bits

// A tensor of the trace as formulas see it.
export function asSeen(trace, name) {
  const tensor = trace.tensor(name);
  const read = (window) => {
    if (tensor.need) for (let head = window[0][0]; head < window[0][0] + window[0][1]; head++) tensor.need(head);
    return tensor.data;
  };
  return { tensor, ...seen(tensor.shape, isGrouped(tensor), read) };
}

// The formula of a tensor, ready to be evaluated; null where it has none, or where a part of it was left out of the page.
export function formulaOf(trace, tensor) {
  const refs = Object.entries(tensor.refs ?? {});
  if (!tensor.refs || refs.some(([, ref]) => nameOf(ref) && !trace.tensors[nameOf(ref)])) return null;
  const known = new Map(refs.map(([name, ref]) => [name, nameOf(ref) ? asSeen(trace, nameOf(ref)) : ref.value]));
  const left = seen(tensor.shape, isGrouped(tensor));
  return { left, node: bind(parse(tensor.equation), (name) => known.get(name), left.shape) };
}

const nameOf = (ref) => ref.y ?? ref.tensor;

// What stands behind one cell, `at` among all numbers of its tensor:
// product   the terms of the outermost product, or else sum over a row: { kind, a, b, text, value }; null where there is none
// lines     the other numbers, [{ text, value, tensor }]
// result    what the formula gives
// places    where all of these stand
export function explain(trace, tensor, at) {
  const formula = formulaOf(trace, tensor);
  if (!formula) return null;
  const { node, left } = formula;
  const result = evaluate(node, cell(left.index(at)))[0];
  const outermost = first(node, (one) => one.op === "@") ?? first(node, (one) => isCall(one, SUMS));
  const found = { product: null, lines: [], result, places: leaves(node).map(placeOf) };
  describe(node, outermost, found);
  return found;
}

// Whether that is the value that is stored, but for rounding: of numbers that cancel out, the larger ones count.
export function isEqual(trace, tensor, value, { product, lines, result }) {
  const terms = product ? product.a.values.reduce((sum, x, i) => sum + Math.abs(x * (product.b?.values[i] ?? 1)), 0) : 0;
  const largest = Math.max(sizeOf(tensor), ...[terms, ...lines.map((one) => (one.tensor ? Math.abs(one.value) : 0))].filter(Number.isFinite));
  return result === value || Math.abs(result - value) <= (trace.half ? HALF : EXACT) * largest;
}

const sizes = new WeakMap(); // of each tensor, its largest number
function sizeOf(tensor) {
  if (tensor.need) return 1;
  if (!sizes.has(tensor)) sizes.set(tensor, tensor.data.reduce((most, x) => (Number.isFinite(x) ? Math.max(most, Math.abs(x)) : most), 1e-6));
  return sizes.get(tensor);
}

const isCall = (node, names) => node.op === "call" && !node.tensor && names.includes(node.name);
const isOne = (node) => node.window?.every(([, count]) => count === 1);

// The first node in the text, of those that gave one number, for which this holds; what is around another comes before it.
function first(node, holds) {
  if (isOne(node) && holds(node)) return node;
  for (const one of node.of) {
    const found = first(one, holds);
    if (found) return found;
  }
  return null;
}

function describe(node, outermost, found) {
  if (node === outermost) found.product = termsOf(node);
  else if (node.op === "@" || node.op === "name" || node.tensor || isCall(node, WHOLE)) {
    if (isOne(node)) found.lines.push({ text: node.text, value: node.read(node.window)[0], tensor: node.tensor?.name });
  } else node.of.forEach((one) => describe(one, outermost, found));
}

function termsOf(node) {
  const [a, b] = (node.op === "@" ? node.of : node.of.slice(0, 1)).map((one) => ({ label: labelOf(one), tensor: onlyLeaf(one)?.tensor.name, values: one.read(one.window) }));
  return { kind: node.op === "@" ? "product" : node.name, text: node.text, a, b, value: node.read(node.window)[0], at: node.window.at(-1)?.[0] };
}

// The one tensor of which a node shows numbers as they are.
function onlyLeaf(node) {
  const [leaf, ...others] = leaves(node);
  return leaf && !others.length && node.text.replace("^T", "") === leaf.text ? leaf : null;
}

// `blocks.0.attn.q[4]` where the numbers stand as they are in one tensor, else the formula of them.
function labelOf(node) {
  const leaf = onlyLeaf(node);
  if (!leaf) return node.text;
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
