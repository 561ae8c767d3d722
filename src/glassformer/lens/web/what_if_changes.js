// Changes, as records that Python and the studio read alike (glassformer/lens/what_if.py), and what each does in the
// page's own forward pass: functions of the values that it changes.
const HIDDEN = -1e9; // a score that softmax makes exactly zero of
const OF_HEADS = ["q", "k", "v", "z", "k_shared", "v_shared", "scores", "pattern", "bias"];

// { values: Map(name -> function of { shape, data }), inputs: Map(name -> { shape, data }) }
export function asPatches(trace, pass, changes, other = null) {
  const values = new Map();
  const inputs = new Map();
  const add = (name, f) => {
    if (!(name in trace.tensors)) throw new Error(`no value is called ${name}`);
    const before = values.get(name);
    values.set(name, before ? (value) => f(before(value)) : f);
  };
  for (const change of changes) KINDS[change.change](change, { trace, pass, other, add, inputs });
  return { values, inputs };
}

const KINDS = {
  "head-off": ({ layer, head }, { add }) => add(`${layer}.z`, placed(`${layer}.z`, { head }, () => 0)),
  temperature({ value, layer = "" }, { trace, add }) {
    if (!(value > 0)) throw new Error(`temperature: ${value} came, expected a number above 0`);
    for (const { name } of trace.attention) if (!layer || layer === name) add(`${name}.scores`, mapped((x) => x / value));
  },
  hide({ position, sequence = "tokens" }, { trace, add }) {
    for (const { name, keys, square } of trace.attention) {
      if (keys === sequence) add(`${name}.scores`, mapped((x, [, t, s]) => (s === position && !(square && t === position) ? HIDDEN : x)));
    }
  },
  scale: ({ name, by, ...where }, { add }) => add(name, placed(name, where, (x) => x * by)),
  replace: ({ name, value, ...where }, { add }) => add(name, placed(name, where, () => value)),
  swap({ name, ...where }, { add, other }) {
    if (!other) throw new Error("swap: of which input?");
    add(name, (value) => {
      const theirs = other.get(name);
      if (String(theirs.shape) !== String(value.shape)) throw new Error(`swap: ${name} of the other input has another shape; take one of as many tokens`);
      return placed(name, where, (_, __, i) => theirs.data[i])(value);
    });
  },
  token({ position, id, sequence = "tokens" }, { trace, pass, inputs }) {
    const name = inputOf(trace, pass, sequence);
    const before = inputs.get(name) ?? pass.recorded(name);
    const data = before.data.slice();
    data[position] = id;
    inputs.set(name, { shape: before.shape, data });
  },
  image({ pixels }, { pass, inputs }) {
    const [name] = Object.keys(pass.inputs);
    inputs.set(name, { shape: pass.recorded(name).shape, data: Float64Array.from(pixels) });
  },
};

// Of two sequences, memory is the one that is read.
export function inputOf(trace, pass, sequence) {
  const names = Object.keys(pass.inputs);
  return names.length === 1 ? names[0] : names[sequence === "memory" ? 0 : names.length - 1];
}

// Heads come first, then tokens.
function mapped(f) {
  return ({ shape, data }) => {
    const index = shape.map(() => 0);
    const out = new Float64Array(data.length);
    for (let i = 0; i < data.length; i++) {
      out[i] = f(data[i], index, i);
      for (let axis = shape.length - 1; axis >= 0 && ++index[axis] === shape[axis]; axis--) index[axis] = 0;
    }
    return { shape, data: out };
  };
}

// Only at one head, at one position, or where both cross.
function placed(name, { head = null, position = null }, f) {
  const hasHeads = OF_HEADS.includes(name.slice(name.lastIndexOf(".") + 1));
  return (value) => {
    const { shape } = value;
    const [headAxis, tokenAxis] = shape.length === 3 && hasHeads ? [0, 1] : [-1, shape.length === 2 ? 0 : -1];
    must(name, "head", head, headAxis, shape);
    must(name, "position", position, tokenAxis, shape);
    return mapped((x, index, i) => ((head ?? index[headAxis]) === index[headAxis] && (position ?? index[tokenAxis]) === index[tokenAxis] ? f(x, index, i) : x))(value);
  };
}

function must(name, what, at, axis, shape) {
  if (at == null) return;
  if (axis < 0) throw new Error(`${name} has no axis of ${what}s`);
  if (!(at >= 0 && at < shape[axis])) throw new Error(`${what} ${at} came, ${name} has ${what}s 0 to ${shape[axis] - 1}`);
}

// In words.
export function described({ change, layer, head, position, sequence, name, by, value, id }, trace) {
  const where = [head == null ? "" : `head ${head}`, position == null ? "" : `position ${position}`].filter(Boolean).join(", ");
  const at = where ? ` (${where})` : "";
  const which = (from) => trace.sequences[from ?? "tokens"]?.[position] ?? position;
  return {
    "head-off": () => `head ${head} of ${layer} off`,
    temperature: () => `attention temperature ${value}${layer ? ` in ${layer}` : ""}`,
    hide: () => `nothing attends to token ${position} “${which(sequence)}”`,
    scale: () => `${name}${at} × ${by}`,
    replace: () => `${name}${at} = ${value}`,
    swap: () => `${name}${at} of the other input`,
    token: () => `token ${position} “${which(sequence)}” → “${trace.words[id] ?? id}”`,
    image: () => "the image drawn on",
  }[change]();
}
