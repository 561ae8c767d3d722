// Softmax again, in the page: with another mask, or at another temperature.
//
// pattern[t, s] = exp(scores[t, s] / temperature) / the sum over all s that t may look at

export function softmaxRow(scores, start, length, sees, temperature, out, at = start) {
  let largest = -Infinity;
  for (let s = 0; s < length; s++) if (sees(s)) largest = Math.max(largest, scores[start + s]);
  let sum = 0;
  for (let s = 0; s < length; s++) {
    const weight = sees(s) ? Math.exp((scores[start + s] - largest) / temperature) : 0;
    out[at + s] = weight;
    sum += weight;
  }
  for (let s = 0; s < length; s++) out[at + s] /= sum || 1;
}

export function isChanged(layer, { mask, temperature }) {
  return temperature !== 1 || (layer.square && Boolean(mask) && mask !== layer.mask);
}

// Which keys the query t may look at: as in the run, its window and padding included, or under another mask.
export function seenBy(trace, layer, mask, head, t) {
  const chosen = layer.square ? mask || layer.mask : layer.mask;
  const recorded = chosen === layer.mask ? trace.tensor(`${layer.name}.mask`) : null;
  if (!recorded) return (s) => chosen !== "causal" || s <= t;
  const [H, T, S] = [1, 1, ...recorded.shape].slice(-3);
  const start = ((H > 1 ? head : 0) * T + (T > 1 ? t : 0)) * S;
  return (s) => recorded.data[start + (S > 1 ? s : 0)] > 0;
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
    for (let t = 0; t < T; t++) softmaxRow(scores, t * S, S, seenBy(trace, layer, settings.mask, head, t), settings.temperature, out);
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
  softmaxRow(scores, t * S, S, seenBy(trace, layer, settings.mask, head, t), settings.temperature, out, 0);
  return out;
}
