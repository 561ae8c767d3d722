// Softmax again, in the page: with another mask, or at another temperature.
//
// pattern[t, s] = exp(scores[t, s] / temperature) / the sum over all s that t may look at

export function softmaxRow(scores, start, length, visible, temperature, out, at = start) {
  let largest = -Infinity;
  for (let s = 0; s < visible; s++) largest = Math.max(largest, scores[start + s]);
  let sum = 0;
  for (let s = 0; s < length; s++) {
    const weight = s < visible ? Math.exp((scores[start + s] - largest) / temperature) : 0;
    out[at + s] = weight;
    sum += weight;
  }
  for (let s = 0; s < visible; s++) out[at + s] /= sum;
}

export function isChanged(layer, { mask, temperature }) {
  return temperature !== 1 || (layer.square && Boolean(mask) && mask !== layer.mask);
}

// How many of the keys, from the first, the query t may look at.
export function seenBy(layer, mask, t, S) {
  return (layer.square ? mask || layer.mask : layer.mask) === "causal" ? t + 1 : S;
}

const patterns = new WeakMap(); // of each trace, the last ones that were worked out

// The pattern (T, S) of one head under a mask and a temperature; the recorded one where nothing is changed.
export function patternOf(trace, layer, head, settings) {
  if (!isChanged(layer, settings)) return trace.ofHead(`${layer.name}.pattern`, head);
  if (!patterns.has(trace)) patterns.set(trace, new Map());
  const remembered = patterns.get(trace);
  const key = `${layer.name} ${head} ${settings.mask} ${settings.temperature}`;
  if (!remembered.has(key)) {
    if (remembered.size > 15) remembered.delete(remembered.keys().next().value);
    const scores = trace.ofHead(`${layer.name}.scores`, head);
    const [, T, S] = trace.tensors[`${layer.name}.scores`].shape;
    const out = new Float32Array(scores.length);
    for (let t = 0; t < T; t++) softmaxRow(scores, t * S, S, seenBy(layer, settings.mask, t, S), settings.temperature, out);
    remembered.set(key, out);
  }
  return remembered.get(key);
}

// What one query gives to every key: one row, without working out the others.
export function attentionOf(trace, layer, head, query, settings) {
  const [, T, S] = trace.tensors[`${layer.name}.pattern`].shape;
  const t = Math.min(query, T - 1);
  if (!isChanged(layer, settings)) return trace.ofHead(`${layer.name}.pattern`, head).subarray(t * S, (t + 1) * S);
  const out = new Float32Array(S);
  const scores = trace.ofHead(`${layer.name}.scores`, head);
  softmaxRow(scores, t * S, S, seenBy(layer, settings.mask, t, S), settings.temperature, out, 0);
  return out;
}
