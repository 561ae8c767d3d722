// Who looks at whom is not stored for long texts, T x S numbers for every head: it follows from q, k, v and dz. A head
// is worked out when it is first looked at.
//
// scores = q @ k^T * scale + bias      pattern = softmax(scores)
// dpattern = dz @ v^T                  dscores = pattern * (dpattern - rowsum(dpattern * pattern))
import { softmaxRow } from "./softmax.js";

// The numbers of all heads, and `need(head)`, to be called before those of a head are read.
export function derive(trace, name, entry) {
  const scope = name.slice(0, name.lastIndexOf("."));
  const word = name.slice(scope.length + 1);
  const [heads, T, S] = entry.shape;
  const data = new Float32Array(heads * T * S);
  const done = new Set();
  const need = (head) => {
    if (done.has(head)) return;
    done.add(head);
    WORDS[word](trace, scope, head, T, S, data.subarray(head * T * S, (head + 1) * T * S));
  };
  return { data, need, worked: () => done.size };
}

const WORDS = {
  scores(trace, scope, head, T, S, out) {
    const { scale } = trace.attention.find((one) => one.name === scope);
    products(trace.tensor(`${scope}.q`), trace.tensor(`${scope}.k`), head, T, S, scale, out);
    const bias = trace.tensor(`${scope}.bias`);
    if (bias) for (let i = 0; i < out.length; i++) out[i] += bias.data[head * T * S + i];
  },
  pattern(trace, scope, head, T, S, out) {
    const { mask } = trace.attention.find((one) => one.name === scope);
    const scores = trace.ofHead(`${scope}.scores`, head);
    for (let t = 0; t < T; t++) softmaxRow(scores, t * S, S, mask === "causal" ? t + 1 : S, 1, out);
  },
  dpattern(trace, scope, head, T, S, out) {
    products(trace.tensor(`${scope}.dz`), trace.tensor(`${scope}.v`), head, T, S, 1, out);
  },
  dscores(trace, scope, head, T, S, out) {
    const pattern = trace.ofHead(`${scope}.pattern`, head);
    const dpattern = trace.ofHead(`${scope}.dpattern`, head);
    for (let start = 0; start < out.length; start += S) {
      let mean = 0;
      for (let i = start; i < start + S; i++) mean += pattern[i] * dpattern[i];
      for (let i = start; i < start + S; i++) out[i] = pattern[i] * (dpattern[i] - mean);
    }
  },
};

// a (T, H, D) with b (S, H, D): the T x S dot products of one head.
function products(a, b, head, T, S, scale, out) {
  const [, H, D] = a.shape;
  for (let t = 0; t < T; t++) {
    const from = (t * H + head) * D;
    for (let s = 0; s < S; s++) {
      const to = (s * H + head) * D;
      let sum = 0;
      for (let d = 0; d < D; d++) sum += a.data[from + d] * b.data[to + d];
      out[t * S + s] = sum * scale;
    }
  }
}
