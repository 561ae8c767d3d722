// How large a value is at each token, and how large what is added to the stream is beside it.

// The length of each row of a tensor (T, C); null where it has no row for each token, or is not in the page.
export function norms(trace, name) {
  const tensor = name && trace.tensor(name);
  if (!tensor || !perToken(tensor)) return null;
  const [T, C] = tensor.shape;
  return Float32Array.from({ length: T }, (_, t) => size(tensor.data, t * C, C));
}

// |added| / |stream|, token by token.
export function shareAdded(trace, line) {
  const [added, stream] = [norms(trace, line.added), norms(trace, line.stream)];
  return added && stream && added.length === stream.length ? added.map((one, t) => one / (stream[t] || 1)) : null;
}

// |after - before| / |before|: what a whole block adds.
export function shareChanged(trace, before, after) {
  const [a, b] = [before, after].map((name) => name && trace.tensor(name));
  if (!a || !b || !perToken(a) || String(a.shape) !== String(b.shape)) return null;
  const [T, C] = a.shape;
  const change = b.data.map((value, i) => value - a.data[i]);
  return Float32Array.from({ length: T }, (_, t) => size(change, t * C, C) / (size(a.data, t * C, C) || 1));
}

export function mean(values) {
  return values.reduce((sum, one) => sum + one, 0) / values.length;
}

const perToken = ({ axes, shape }) => shape.length === 2 && ["T", "S"].includes(axes[0]);

function size(data, start, count) {
  let square = 0;
  for (let i = start; i < start + count; i++) square += data[i] * data[i];
  return Math.sqrt(square);
}
