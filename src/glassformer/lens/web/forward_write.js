// A text goes on: the next token of a decoder, by the forward pass of this page.
import { openForward } from "./forward_pass.js";

// The ids of the whole text.
export function promptIds(trace) {
  const { inputs, reason, recorded } = openForward(trace);
  return reason ? [] : [...recorded(Object.keys(inputs)[0]).data];
}

// Why this page cannot write on; nothing where it can.
export function writeReason(trace) {
  const { reason, inputs } = openForward(trace);
  if (reason) return reason;
  const layers = trace.attention;
  if (trace.input.kind !== "text" || !trace.answer.places || Object.keys(inputs).length !== 1) return "the model does not write a text on";
  if (!layers.length || layers.some(({ mask, square }) => mask !== "causal" || !square)) return "its attention is not causal: it answers for the whole text at once";
  const masked = layers.find(({ name }) => !isTriangle(trace.tensor(`${name}.mask`)));
  return masked ? `the mask of ${masked.name} is not the plain causal one` : "";
}

// { id, word, probabilities, ids } of the token that is likeliest after `ids`: what `generate` writes greedily; the logits
// that say so, and the attention weights of the last of `ids`.
export function writeNext(trace, ids = promptIds(trace)) {
  const reason = writeReason(trace);
  if (reason) throw new Error(reason);
  const { run, inputs, logits, context } = openForward(trace);
  const read = ids.slice(firstInView(ids.length, context ?? ids.length));
  const name = Object.keys(inputs)[0];
  const values = run(new Map(), new Map([[name, { shape: [read.length], data: Float64Array.from(read) }]]), grownTo(trace, name, read.length));
  const { shape: [T, V], data } = values.get(logits);
  const row = data.subarray((T - 1) * V, T * V);
  const known = trace.words.length ? Math.min(trace.words.length, V) : V; // a table may have more rows than there are symbols
  let best = 0;
  for (let i = 1; i < known; i++) if (row[i] > row[best]) best = i;
  const attention = (layer, head) => {
    const { data: pattern } = values.get(`${layer}.pattern`);
    return pattern.subarray((head * T + T - 1) * T, (head + 1) * T * T);
  };
  const sum = row.reduce((all, x) => all + Math.exp(x - row[best]), 0);
  return { id: best, word: trace.words[best] ?? String(best), probabilities: row.map((x) => Math.exp(x - row[best]) / sum), ids: [...ids, best], logits: Float32Array.from(row), attention };
}

// When the context is full, the last half of it is read anew (generate/text.py).
export function firstInView(tokens, context) {
  const half = Math.max(1, Math.floor(context / 2));
  return tokens <= context ? 0 : Math.ceil((tokens - context) / half) * half;
}

// What depends on the number of tokens alone: sizes, masks and places.
function grownTo(trace, input, tokens) {
  const before = trace.tensors[input].shape[0];
  return {
    size: (word, value) => (["T", "S"].includes(word) && value === before ? tokens : value),
    constant(name, recorded) {
      const { axes } = trace.tensors[name];
      if (!axes.some((axis) => axis === "T" || axis === "S") || trace.tensors[name].kind === "weight") return null;
      if (trace.tensors[name].kind === "mask") {
        return { shape: [tokens, tokens], data: Float64Array.from({ length: tokens * tokens }, (_, i) => Number(i % tokens <= Math.floor(i / tokens))) };
      }
      const first = recorded(name).data[0]; // places, one after the other
      return { shape: [tokens], data: Float64Array.from({ length: tokens }, (_, i) => first + i) };
    },
  };
}

function isTriangle(mask) {
  const [T, S] = mask?.shape ?? [];
  return Boolean(mask) && mask.shape.length === 2 && T === S && mask.data.every((seen, i) => Boolean(seen) === i % S <= Math.floor(i / S));
}
