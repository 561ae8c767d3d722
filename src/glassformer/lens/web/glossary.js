// The field's words: what each means, and which tensors it is about.
import { h } from "./dom.js";

// [words, tensors that carry it (by the parts of their names), what it means]
const ENTRIES = [
  [["attention", "self-attention", "attend"], /(^|\.)(attn|cross)\./, "Every token takes a weighted mean of the values of other tokens; the weights follow from queries and keys."],
  [["cross-attention", "cross attention"], /(^|\.)cross\./, "Attention whose queries come from one text and whose keys and values come from another."],
  [["query", "queries"], /\.d?(q|query|w_q|b_q)$/, "What a token asks for: its row of q. It is compared with the keys of all tokens."],
  [["key", "keys"], /\.d?(k|w_k|b_k)$/, "What a token offers to be found by: its row of k. Queries are compared with it."],
  [["value", "values"], /\.d?(v|w_v|b_v)$/, "What a token gives to those that attend to it: its row of v."],
  [["head", "heads"], /\.d?(pattern|z|scores)$|(^|\.)head\./, "Attention is computed several times side by side, each with queries, keys and values of its own: one of these is a head."],
  [["score", "scores"], /\.d?scores$/, "Query times key, scaled: how well they match, before the softmax."],
  [["softmax"], /\.d?(pattern|scores|log_p)$/, "exp of each number, divided by their sum: positive shares that add up to 1."],
  [["attention weights", "pattern", "share"], /\.d?pattern$/, "The shares that softmax makes of the scores: how much of each token's value is taken."],
  [["mask", "causal"], /\.mask$|\.d?pattern$/, "Which tokens may be attended to; causal: only those that came before, and the token itself."],
  [["residual stream", "residual", "stream", "skip", "skip connection"], /\.d?(resid_\w+|sum\d)$/, "What runs from layer to layer: every part reads it and adds to it."],
  [["feed-forward", "feed forward", "mlp", "hidden"], /(^|\.)ff\.|hidden/, "Two linear layers with an activation between them, applied to each token alone."],
  [["layer normalisation", "normalisation", "norm", "layernorm", "layer norm", "rmsnorm"], /(^|\.)norm\d?\./, "Brings the numbers of each token to a common size, then scales them by a learned gain."],
  [["embedding", "embed", "embeddings"], /(^|\.)embed\w*\.|(^|\.)patch\./, "A learned row of numbers for each symbol: how a token enters the model."],
  [["position", "positions", "positional"], /(^|\.)positions\.|\.d?pos$/, "A learned row of numbers for each place, added to the tokens, so that attention can tell places apart."],
  [["logit", "logits"], /\.d?logits$|(^|\.)head\.(\w+\.)?d?y$/, "The score of a class or symbol before the softmax."],
  [["probability", "probabilities"], /log_p$/, "The softmax of the logits: how sure the model is."],
  [["loss"], /^loss\./, "How wrong the answer is: minus the logarithm of the probability of what is right."],
  [["gradient", "gradients", "backward"], /\.d\w+$/, "How much the loss grows when a number grows by one; it is computed from the loss back to the input."],
  [["activation", "gelu", "relu"], /activation\.|hidden$/, "A function applied to each number, between two linear layers; without it they would be one."],
  [["token", "tokens"], /\.ids$|(^|\.)embed\./, "A piece of the input: a patch of an image, or a character or word part of a text."],
  [["weight", "weights", "parameters"], /\.(w|w_\w+|emb|pos)$/, "The numbers that training changes."],
  [["bias"], /\.d?(b|b_\w+|bias)$/, "A learned number that is added."],
  [["temperature"], /\.d?scores$/, "Logits or scores are divided by it before the softmax: below 1 the likely become likelier."],
  [["top-p"], /\.d?logits$/, "Only the likeliest symbols stay that have this probability together."],
];

// Words of the field that are two words.
export const PHRASES = ENTRIES.flatMap(([words]) => words).filter((word) => word.includes(" "));

export function entryOf(word) {
  return ENTRIES.find(([words]) => words.includes(word.toLowerCase()));
}

// Whether a tensor is one of those that a word of the field is about.
export function isAbout(word, name) {
  const entry = entryOf(word);
  return Boolean(entry) && entry[1].test(name);
}

const WORDS = ENTRIES.flatMap(([words]) => words).filter((word) => word.length > 3 && !["share", "skip"].includes(word)).sort((a, b) => b.length - a.length);
const FOUND = new RegExp(`\\b(${WORDS.map((word) => word.replace("-", "\\-")).join("|")})\\b`, "gi");

// A sentence in which the field's words explain themselves: on hover, on focus, and to screen readers.
export function withGlossary(sentence) {
  const seen = new Set();
  return sentence.split(FOUND).map((part) => {
    const entry = entryOf(part);
    if (!entry || seen.has(entry)) return part;
    seen.add(entry);
    return h("dfn", { class: "term", tabindex: 0, "data-means": entry[2], "aria-label": `${part}: ${entry[2]}` }, part);
  });
}
