// Attention weights are not stored for long texts, T x S numbers for every head, nor are large gradients of weights, x^T @ dy:
// they follow by the very formulas that are shown. A head, or a gradient, is worked out when it is first looked at.
import { formulaOf } from "./explain.js";
import { evaluate } from "./formula.js";

// The numbers of all heads, and `need(head)`, to be called before those of a head are read.
export function derive(trace, tensor) {
  if (tensor.kind === "dweight" || tensor.axes[2] !== "S") return { data: whole(trace, tensor) };
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

function whole(trace, tensor) {
  const { left, node } = formulaOf(trace, tensor);
  const found = evaluate(node, left.shape.map((count) => [0, count]));
  return Float32Array.from({ length: tensor.shape.reduce((all, count) => all * count, 1) }, (_, i) => found[i % found.length]);
}
