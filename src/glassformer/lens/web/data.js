// The trace: tensors by name, unpacked from base64 the first time they are asked for.
import { axisName, isGate, isGroup } from "./axes.js";
import { derive } from "./derive.js";

export function openTrace(payload) {
  const unpacked = new Map();

  function tensor(name) {
    if (!(name in payload.tensors)) return null;
    if (!unpacked.has(name)) {
      const entry = payload.tensors[name];
      const made = { name, ...entry, data: null };
      unpacked.set(name, made);
      if (entry.derived) Object.assign(made, derive(trace, made));
      else made.data = entry.same ? tensor(entry.same).data : numbers(entry);
    }
    return unpacked.get(name);
  }

  // The T x S numbers of one head, of scores and the like.
  function ofHead(name, head) {
    const { shape, data, need } = tensor(name);
    need?.(head);
    return data.subarray(head * shape[1] * shape[2], (head + 1) * shape[1] * shape[2]);
  }

  // One number, by its place among all of a tensor.
  function numberAt(name, at) {
    const { shape, data, need } = tensor(name);
    need?.(Math.floor(at / (shape[1] * shape[2])));
    return data[at];
  }

  const trace = { ...payload, tensor, ofHead, numberAt, names: Object.keys(payload.tensors) };
  return trace;
}

function numbers({ type, data, shape, unit }) {
  const bytes = bytesOf(data);
  if (type === "f4") return new Float32Array(bytes.buffer);
  if (type === "b1") return Float32Array.from({ length: shape.reduce((all, count) => all * count, 1) }, (_, i) => (bytes[i >> 3] >> (7 - (i & 7))) & 1);
  return Float32Array.from(new Uint16Array(bytes.buffer), (half) => fromHalf(half) * unit);
}

export function bytesOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

// 16 bits: sign, five of exponent, ten of fraction.
function fromHalf(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

// A tensor as rows and columns: of three axes, one head, gate or channel is taken: the one that is chosen of its kind.
export function matrix(tensor, { head = 0, group = 0 } = {}) {
  const { shape, axes, data } = tensor;
  const view = (rows, columns, offset, rowStep, columnStep, rowAxis, columnAxis, of) => ({
    name: tensor.name, data, rows, columns, rowAxis, columnAxis, of,
    index: (row, column) => offset + row * rowStep + column * columnStep,
    at: (row, column) => data[offset + row * rowStep + column * columnStep],
  });
  if (shape.length === 0) return view(1, 1, 0, 0, 0, "", "");
  if (shape.length === 1) return view(1, shape[0], 0, 0, 1, "", axes[0]);
  if (shape.length === 2) return view(shape[0], shape[1], 0, shape[1], 1, axes[0], axes[1]);
  const [a, b, c] = shape;
  const apart = isGroup(axes[0]) ? 0 : axes[2] === "G" ? 2 : 1; // the axis of which one is taken
  const chosen = (["H", "J"].includes(axes[apart]) ? head : group) % shape[apart];
  const of = shape[apart] > 1 || apart < 2 ? { axis: axes[apart], at: chosen, count: shape[apart] } : undefined;
  tensor.need?.(chosen);
  if (apart === 0) return view(b, c, chosen * b * c, c, 1, axes[1], axes[2], of);
  if (apart === 2) return view(a, b, chosen, b * c, c, axes[0], axes[1], of);
  return view(a, c, chosen * c, b * c, 1, axes[0], axes[2], of);
}

// `head 1`, `gate f`: which part of its tensor a view shows; nothing where it shows all.
export function partOf(trace, tensor, { of }) {
  return of ? `${axisName(of.axis) || "part"} ${labelOf(trace, tensor, of.axis, of.at)}` : "";
}

// The same rows and columns with other numbers: a pattern under another mask.
export function withNumbers(view, data) {
  return { ...view, data, at: (row, column) => data[row * view.columns + column] };
}

export function extent(view) {
  let low = Infinity;
  let high = -Infinity;
  for (let row = 0; row < view.rows; row++) {
    for (let column = 0; column < view.columns; column++) {
      const value = view.at(row, column);
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  return low <= high ? [low, high] : [0, 0];
}

// What the rows or columns along an axis are called: patches, tokens, classes, symbols, gates, or just numbers.
export function labelOf(trace, tensor, axis, i) {
  return namesAlong(trace, tensor, axis)?.[i] ?? String(i);
}

function namesAlong(trace, tensor, axis) {
  if (axis === "T" || axis === "S" || axis === "M") return sequenceOf(trace, tensor, axis).slice(tokensInFront(trace, tensor, axis));
  if (isGate(axis)) return tensor.gates ?? stepOf(trace, tensor)?.gates;
  return axis === "K" || axis === "V" ? trace.words : null;
}

const stepOf = (trace, { name }) => trace.steps.find(({ values, gradients, weights }) => [...values, ...gradients, ...weights, ...weights.map((weight) => trace.tensors[weight]?.gradient)].includes(name));

// How many tokens of its sequence a tensor does not have yet: class and distillation tokens come in front of the patches.
export function tokensInFront(trace, tensor, axis) {
  return Math.max(sequenceOf(trace, tensor, axis).length - tensor.shape[tensor.axes.indexOf(axis)], 0);
}

export function sequenceOf(trace, tensor, axis) {
  const layer = trace.attention.find((one) => tensor.name.startsWith(`${one.name}.`));
  const which = layer ? layer[axis === "S" ? "keys" : "queries"] : trace.sequences.memory.length && axis === "S" ? "memory" : "tokens";
  return trace.sequences[which];
}
