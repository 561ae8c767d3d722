// The numbers that made a number. For each kind of arithmetic one function: from the place of a cell to its terms.
//
// { sum: [a, b, …] terms of a dot product, scale, plus }  or  { parts: [[label, value], …], result };
// both with `places`, where these numbers stand

const dot = (a, b, { scale = 1, plus = 0, plusName = "", masked = false } = {}) => {
  let sum = 0;
  for (let i = 0; i < a.values.length; i++) sum += a.values[i] * (b ? b.values[i] : 1);
  const places = [a.place, ...(b ? [b.place] : [])];
  return { kind: "dot", a, b, scale, plus, plusName, masked, sum, result: sum * scale + plus, places };
};

const row = (tensor, start, count, step = 1) =>
  Float32Array.from({ length: count }, (_, i) => tensor.data[start + i * step]);

// Values along a row, or a column, of a tensor; of one head, where it has heads.
const alongRow = (tensor, t, values, head) => ({ name: `${tensor}[${t}]`, values, place: { tensor, row: t, head } });
const alongColumn = (tensor, c, values, head) => ({ name: `${tensor}[:, ${c}]`, values, place: { tensor, column: c, head } });

// `places`: where the parts stand, [{ tensor, row, column, head }], a whole row where no column is named.
const parts = (list, result, places = []) => ({ kind: "parts", parts: list, result, places });

const KINDS = {
  linear(get, { x, w, b, scale }, at) {
    const [I, O] = get(w).shape;
    const [t, o] = [Math.floor(at / O), at % O];
    const plus = b ? { plus: get(b).data[o], plusName: b } : {};
    return dot(alongRow(x, t, row(get(x), t * I, I)), alongColumn(w, o, row(get(w), o, I, O)), { scale, ...plus });
  },
  linear_t(get, { x, w, b, scale }, at) {
    const [I, O] = get(w).shape;
    const [t, i] = [Math.floor(at / I), at % I];
    const plus = b ? { plus: get(b).data[i], plusName: b } : {};
    return dot(alongRow(x, t, row(get(x), t * O, O)), alongRow(w, i, row(get(w), i * O, O)), { scale, ...plus });
  },
  scores(get, { q, k, bias, scale }, at, [, T, S]) {
    const [, H, D] = get(q).shape;
    const [head, t, s] = [Math.floor(at / (T * S)), Math.floor(at / S) % T, at % S];
    const plus = bias ? { plus: get(bias).data[at], plusName: bias } : {};
    return dot(alongRow(q, t, row(get(q), (t * H + head) * D, D), head), alongRow(k, s, row(get(k), (s * H + head) * D, D), head), { scale, ...plus });
  },
  mix(get, { pattern, v }, at, [, H, D]) {
    const [t, head, d] = [Math.floor(at / (H * D)), Math.floor(at / D) % H, at % D];
    const [, T, S] = get(pattern).shape;
    return dot(alongRow(pattern, t, row(get(pattern), (head * T + t) * S, S), head), alongColumn(v, d, row(get(v), head * D + d, S, H * D), head));
  },
  softmax(get, { scores }, at, [, T, S]) {
    const start = at - (at % S);
    const given = row(get(scores), start, S);
    const pattern = get(scores.replace(/scores$/, "pattern"));
    const seen = [...given.keys()].filter((s) => pattern.data[start + s] > 0);
    const largest = Math.max(...seen.map((s) => given[s]));
    const sum = seen.reduce((all, s) => all + Math.exp(given[s] - largest), 0);
    const own = given[at % S];
    const masked = pattern.data[at] === 0;
    const result = masked ? 0 : Math.exp(own - largest) / sum;
    return { ...parts([["score", own], ["largest score in the row", largest], ["exp(score − largest)", Math.exp(own - largest)], ["sum of these over the row", sum]], result, [{ tensor: scores, ...headRow(at, T, S) }]), masked };
  },
  dpattern(get, { dz, v }, at, [, T, S]) {
    const [, H, D] = get(dz).shape;
    const [head, t, s] = [Math.floor(at / (T * S)), Math.floor(at / S) % T, at % S];
    return dot(alongRow(dz, t, row(get(dz), (t * H + head) * D, D), head), alongRow(v, s, row(get(v), (s * H + head) * D, D), head));
  },
  dsoftmax(get, { pattern, dpattern }, at, [, T, S]) {
    const start = at - (at % S);
    let mean = 0;
    for (let i = start; i < start + S; i++) mean += get(pattern).data[i] * get(dpattern).data[i];
    const [p, dp] = [get(pattern).data[at], get(dpattern).data[at]];
    return parts([["pattern", p], ["dpattern", dp], ["rowsum(dpattern · pattern)", mean]], p * (dp - mean), [pattern, dpattern].map((tensor) => ({ tensor, ...headRow(at, T, S) })));
  },
  dq: (get, { dscores, k, scale }, at, [, H, D]) => {
    const [t, head, d] = [Math.floor(at / (H * D)), Math.floor(at / D) % H, at % D];
    const [, T, S] = get(dscores).shape;
    return dot(alongRow(dscores, t, row(get(dscores), (head * T + t) * S, S), head), alongColumn(k, d, row(get(k), head * D + d, S, H * D), head), { scale });
  },
  dk: (get, { dscores, q, scale }, at, [, H, D]) => columnOf(get, dscores, q, at, H, D, scale),
  dv: (get, { pattern, dz }, at, [, H, D]) => columnOf(get, pattern, dz, at, H, D, 1),
  outer(get, { x, dy, scale }, at, [I, O]) {
    const [i, o] = [Math.floor(at / O), at % O];
    const T = get(x).data.length / I;
    return dot(alongColumn(x, i, row(get(x), i, T, I)), alongColumn(dy, o, row(get(dy), o, T, O)), { scale });
  },
  total(get, { dy }, at, [O]) {
    return dot(alongColumn(dy, at, row(get(dy), at, get(dy).data.length / O, O)), null);
  },
  mean(get, { x }, at, [C]) {
    const T = get(x).data.length / C;
    return dot(alongColumn(x, at, row(get(x), at, T, C)), null, { scale: 1 / T });
  },
  first: (get, { x }, at) => parts([[`${x}[0, ${at}]`, get(x).data[at]]], get(x).data[at]),
  join: (get, { z }, at) => parts([[z, get(z).data[at]]], get(z).data[at]),
  split: (get, { joined }, at) => parts([[joined, get(joined).data[at]]], get(joined).data[at]),
  sum: (get, { a, b }, at) => parts([[a, get(a).data[at]], [b, get(b).data[at]]], get(a).data[at] + get(b).data[at], [cellOf(get, a, at), cellOf(get, b, at)]),
  product: (get, { a, b }, at) => parts([[a, get(a).data[at]], [b, get(b).data[at]]], get(a).data[at] * get(b).data[at], [cellOf(get, a, at), cellOf(get, b, at)]),
  activation: (get, { x }, at) => parts([[x, get(x).data[at]]], null, [cellOf(get, x, at)]),
  row(get, { table, ids }, at) {
    const C = get(table).shape[1];
    const id = get(ids).data[Math.floor(at / C)];
    const value = get(table).data[id * C + (at % C)];
    return parts([["id", id], [`${table}[${id}, ${at % C}]`, value]], value);
  },
  standard(get, { x, inverse }, at) {
    const tokens = get(inverse).data.length;
    const C = get(x).data.length / tokens;
    const t = Math.floor(at / C);
    let mean = 0;
    for (let i = t * C; i < (t + 1) * C; i++) mean += get(x).data[i] / C;
    const [value, inv] = [get(x).data[at], get(inverse).data[t]];
    return parts([[x, value], ["mean of the token", mean], [inverse, inv]], (value - mean) * inv);
  },
  scaled(get, { x, inverse }, at) {
    const t = Math.floor(at / (get(x).data.length / get(inverse).data.length));
    const [value, inv] = [get(x).data[at], get(inverse).data[t]];
    return parts([[x, value], [inverse, inv]], value * inv);
  },
  affine(get, { x, gain, bias }, at) {
    const c = at % get(gain).data.length;
    const list = [[x, get(x).data[at]], [gain, get(gain).data[c]]];
    if (bias) list.push([bias, get(bias).data[c]]);
    return parts(list, list[0][1] * list[1][1] + (bias ? list[2][1] : 0));
  },
};

// The row of a (H, T, S) in which a place lies.
const headRow = (at, T, S) => ({ head: Math.floor(at / (T * S)), row: Math.floor(at / S) % T });

// The same cell of another tensor.
const cellOf = (get, tensor, at) => {
  const columns = get(tensor).shape.at(-1);
  return { tensor, row: Math.floor(at / columns), column: at % columns };
};

// b (T, H, D) gathered along the column s of a (H, T, S).
function columnOf(get, a, b, at, H, D, scale) {
  const [s, head, d] = [Math.floor(at / (H * D)), Math.floor(at / D) % H, at % D];
  const [, T, S] = get(a).shape;
  return dot(alongColumn(a, s, row(get(a), head * T * S + s, T, S), head), alongColumn(b, d, row(get(b), head * D + d, T, H * D), head), { scale });
}

export function explain(trace, tensor, at) {
  const made = tensor.made;
  if (!made || !KINDS[made.kind]) return null;
  const needed = Object.entries(made).filter(([role]) => role !== "kind" && role !== "scale").map(([, name]) => name);
  if (needed.some((name) => !trace.tensor(name))) return null; // left out of the page
  const [, b, c] = tensor.shape;
  const head = tensor.axes[0] === "H" ? Math.floor(at / (b * c)) : tensor.axes[1] === "H" ? Math.floor(at / c) % b : 0;
  needed.forEach((name) => trace.tensor(name).need?.(head));
  if (made.kind === "softmax") trace.tensor(tensor.name).need?.(head);
  return KINDS[made.kind](trace.tensor, made, at, tensor.shape);
}
