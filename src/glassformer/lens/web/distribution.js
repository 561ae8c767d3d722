// Which symbol comes next, from the logits of all: as `glassformer generate` draws it (generate/sampling.py).
//
// temperature   logits / temperature
// top-p         from the unlikeliest up, as many go as have 1 - p or less together; the likeliest always stays

export function distribution(logits, { temperature = 1, topP = 1 } = {}) {
  const p = softmax(Array.from(logits, (one) => one / temperature));
  if (topP === 1) return p;
  const order = p.map((_, i) => i).sort((a, b) => p[a] - p[b] || a - b);
  const best = order.at(-1);
  let together = 0;
  const stays = p.map(() => true);
  for (const i of order) {
    together += p[i];
    if (together <= 1 - topP && i !== best) stays[i] = false;
  }
  const sum = p.reduce((total, one, i) => total + (stays[i] ? one : 0), 0);
  return p.map((one, i) => (stays[i] ? one / sum : 0));
}

export function likeliest(p, count) {
  return p.map((_, i) => i).filter((i) => p[i] > 0).sort((a, b) => p[b] - p[a] || a - b).slice(0, count);
}

function softmax(scores) {
  const largest = scores.reduce((most, one) => Math.max(most, one), -Infinity);
  const weights = scores.map((one) => Math.exp(one - largest));
  const sum = weights.reduce((total, one) => total + one, 0);
  return weights.map((one) => one / sum);
}
