// Attention weights are not stored for long texts, T x S numbers for every head: they follow from q, k, v and dz by the
// very formulas that are shown. A head is worked out when it is first looked at.
import { formulaOf } from "./explain.js";
import { evaluate } from "./formula.js";

// The numbers of all heads, and `need(head)`, to be called before those of a head are read.
export function derive(trace, tensor) {
  const [heads, T, S] = tensor.shape;
  const data = new Float32Array(heads * T * S);
  const done = new Set();
  const need = (head) => {
    if (done.has(head)) return;
    done.add(head);
    data.set(evaluate(formulaOf(trace, tensor).node, [[head, 1], [0, T], [0, S]]), head * T * S);
  };
  return { data, need, worked: () => done.size };
}
