// Who works out a change: this page by itself (forward_pass.js), or the studio's server. Both answer alike:
// { logits: { shape, data }, loss }, of the model's answer after the changes; `heads()` and `positions()` are tables.
import { openForward } from "./forward_pass.js";
import { asPatches } from "./what_if_changes.js";

const TO_INPUT = ["token", "image"];

export function pageEngine(trace) {
  const pass = openForward(trace);
  const lossOf = (values) => values.get("loss.loss")?.data[0] ?? null;
  const outcome = (values) => ({ logits: values.get(pass.logits), loss: lossOf(values), values });

  // Changes of the input, and then of values; what is swapped in is of the input as it is changed.
  function work(changes) {
    const swaps = changes.some(({ change }) => change === "swap");
    const edits = changes.filter(({ change }) => TO_INPUT.includes(change));
    const other = swaps ? pass.run(new Map(), asPatches(trace, pass, edits).inputs) : null;
    const { values, inputs } = asPatches(trace, pass, swaps ? changes.filter((one) => !edits.includes(one)) : changes, other);
    return pass.run(values, inputs);
  }

  return {
    reason: pass.reason,
    where: "in this page",
    check: () => pass.difference(),
    usual: () => outcome(pass.usual()),
    ask: async (changes) => outcome(work(changes)),
    // Every head off, one by one: [{ layer, head, loss, change }]
    heads: async () => {
      const usual = lossOf(pass.usual());
      return trace.attention.flatMap(({ name: layer, heads }) => Array.from({ length: heads }, (_, head) => {
        const loss = lossOf(work([{ change: "head-off", layer, head }]));
        return { layer, head, loss, change: loss - usual };
      }));
    },
    // The stream of the changed input put in at each block and position: { rows: { name: [change of the logit] } }
    positions: async (edits, { label, place }) => {
      const at = (values) => { const { shape, data } = values.get(pass.logits); return data[shape.length === 1 ? label : place * shape[1] + label]; };
      const before = at(pass.usual());
      const changed = asPatches(trace, pass, edits).inputs;
      const other = at(pass.run(new Map(), changed));
      const rows = {};
      for (const name of trace.streams) {
        const many = pass.usual().get(name).shape[0];
        rows[name] = Array.from({ length: many }, (_, position) => at(work([...edits, { change: "swap", name, position }])) - before);
      }
      return { label, place, before, other, rows };
    },
  };
}

// The studio: `ask(question)` sends { changes } or { table } beside the run and the input.
export function serverEngine(trace, ask) {
  const outcome = ({ logits, loss }) => ({ logits: { shape: logits.shape, data: Float64Array.from(logits.data) }, loss });
  return {
    reason: "",
    where: "by the server",
    check: () => null,
    usual: null, // asked once, with no change
    ask: async (changes, place = null) => outcome(await ask({ changes: changes.map(sent), place })),
    heads: async () => (await ask({ table: "heads" })).heads,
    positions: async (edits, { label, place }) => ask({ table: "positions", changes: edits.map(sent), label, place }),
  };
}

// Pixels go as base64: a request of many numbers is refused.
const sent = (change) => (change.change === "image" ? { ...change, pixels: btoa(String.fromCharCode(...change.pixels)) } : change);

// Softmax of one row of the logits.
export function probabilities({ shape, data }, place = 0) {
  const K = shape.at(-1);
  const row = shape.length === 1 ? data : data.subarray(place * K, (place + 1) * K);
  const most = row.reduce((a, b) => Math.max(a, b), -Infinity);
  const powers = Array.from(row, (x) => Math.exp(x - most));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((x) => x / sum);
}
