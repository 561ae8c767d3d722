// The model's forward pass, worked out again in this page: the formulas that are shown, evaluated in the order of forward.
// What goes in and what is changed on the way may be others than those of the run. Which value reads which is told by the
// run itself (glassformer/lens/dataflow.py), so that a change goes where it goes in the model.
import { isGrouped } from "./axes.js";
import { asSeen } from "./explain.js";
import { bind, evaluate, parse, seen } from "./formula.js";

const passes = new WeakMap(); // of each trace, its pass

// { reason }, and where that is empty: run(changes, inputs), usual(), difference(), logits.
export function openForward(trace) {
  if (!passes.has(trace)) passes.set(trace, made(trace));
  return passes.get(trace);
}

function made(trace) {
  const flow = trace.forward ?? { reason: "the page holds no formulas to compute with" };
  if (flow.reason) return { reason: flow.reason };
  const equations = new Map(flow.order.map((name) => [name, flow.equations[name] ?? [trace.tensors[name].equation, trace.tensors[name].refs]]));
  const readers = readersOf(equations);
  let usual = null; // every value of the pass as it was, in 64 bits

  // Heads come first, as formulas see them: { shape, data }.
  function recorded(name) {
    const one = asSeen(trace, name);
    return { shape: one.shape, data: one.read(one.shape.map((count) => [0, count])) };
  }

  // `changes`: a Map of names to functions of { shape, data }; `inputs`: a Map of names to { shape, data }.
  // Gives a Map of names to { shape, data } of everything that follows from them.
  function run(changes = new Map(), inputs = new Map(), grown = null) {
    const touched = grown || !usual ? null : reached(readers, [...changes.keys(), ...inputs.keys()]);
    const values = new Map();
    function value(name) {
      if (!values.has(name)) {
        const before = inputs.get(name) ?? (touched && !touched.has(name) && usual.has(name) ? usual.get(name) : work(name));
        values.set(name, changes.get(name)?.(before) ?? before);
      }
      return values.get(name);
    }
    function work(name) {
      if (!equations.has(name)) return grown?.constant(name, recorded) ?? recorded(name);
      const [text, refs] = equations.get(name);
      const known = new Map(Object.entries(refs).map(([word, ref]) => [word, meaning(word, ref)]));
      const left = seen(trace.tensors[name].shape, isGrouped(trace.tensors[name])).shape;
      const node = bind(parse(text), (word) => known.get(word), left);
      const shape = grown ? node.shape : left;
      const data = evaluate(node, shape.map((count) => [0, count]));
      const all = shape.reduce((product, count) => product * count, 1);
      return { shape, data: data.length === all ? data : Float64Array.from({ length: all }, (_, i) => data[i % data.length]) };
    }
    function meaning(word, ref) {
      const name = ref.y ?? ref.tensor;
      if (!name) return grown?.size(word, ref.value) ?? ref.value;
      const { shape, data } = value(name);
      return seen(shape, false, () => data);
    }
    for (const name of grown ? [flow.logits] : flow.order) value(name);
    return values;
  }

  const usualValues = () => (usual ??= run());

  // The largest difference between a value of this pass and the one of the run, over the largest number of that value.
  // The loss is told as it is: near zero it has the rounding of the logits, and no digits of its own.
  function difference() {
    const worst = { name: "", difference: 0, loss: null };
    for (const [name, { data }] of usualValues()) {
      const own = recorded(name).data;
      let [most, size] = [0, 1e-6];
      for (let i = 0; i < own.length; i++) {
        if (!Number.isFinite(own[i])) continue;
        most = Math.max(most, Math.abs(own[i] - data[i]));
        size = Math.max(size, Math.abs(own[i]));
      }
      if (name === "loss.loss") worst.loss = most;
      else if (most / size > worst.difference) Object.assign(worst, { name, difference: most / size });
    }
    return worst;
  }

  return { reason: "", run, usual: usualValues, difference, recorded, logits: flow.logits, inputs: flow.inputs, context: flow.context };
}

// name -> the names of the values that read it.
function readersOf(equations) {
  const readers = new Map();
  for (const [name, [, refs]] of equations) {
    for (const ref of Object.values(refs)) {
      const read = ref.y ?? ref.tensor;
      if (!read) continue;
      if (!readers.has(read)) readers.set(read, []);
      readers.get(read).push(name);
    }
  }
  return readers;
}

function reached(readers, names) {
  const found = new Set();
  const waiting = [...names];
  while (waiting.length) {
    const name = waiting.pop();
    if (found.has(name)) continue;
    found.add(name);
    waiting.push(...(readers.get(name) ?? []));
  }
  return found;
}
