// A text that grows in the page: what was read, and behind it, marked, what is written, the likeliest token each time.
// What comes next moves along with it, and under the text stands where its last token attends to.
import { h, percent, visible } from "./dom.js";

// `next(ids)` gives { word, ids, probabilities, id } of the token behind these, { logits, attention } of the last of them;
// without ids, of the text that was read. `show(logits, where)`: what comes next now.
export function growingText(trace, state, next, show = () => {}) {
  const words = trace.sequences.tokens.map((word) => h("span", {}, word));
  const text = h("p", { class: "grown", "aria-live": "polite" }, words);
  const legend = h("p", { class: "small" });
  const element = h("div", { class: "growing", hidden: true }, text, legend);
  let step = null; // of the token that is written next

  function write() {
    step ??= next();
    const mark = h("mark", { title: percent(step.probabilities[step.id]) }, step.word);
    words.push(mark);
    text.append(mark);
    element.hidden = false;
    const { word, ids } = step;
    step = next(ids);
    if (step.logits) show(step.logits, `After “${visible(word)}”, ${words.length - trace.sequences.tokens.length} written`);
    shade();
  }

  // The attention weights of the last token, in the layer and head that are looked at.
  function shade() {
    const layer = trace.attention.find(({ name }) => name === state?.get().layer) ?? trace.attention[0];
    if (!layer || !step?.attention) return;
    const head = Math.min(state?.get().head ?? 0, layer.heads - 1);
    const weights = step.attention(layer.name, head);
    const most = Math.max(...weights);
    const first = words.length - weights.length; // before it, the text is out of the context
    words.forEach((one, i) => {
      const share = weights[i - first] ?? 0;
      one.style.setProperty("background", `color-mix(in srgb, var(--adds) ${Math.round((45 * share) / most)}%, transparent)`);
      if (one.tagName === "SPAN") one.title = percent(share);
    });
    legend.textContent = `Underlined: written, the likeliest each time. Shaded: attention weights of the last token, ${layer.title}, head ${head}.`;
  }

  state?.onChange((_, changed) => { if (changed.has("layer") || changed.has("head")) shade(); });
  return { element, write };
}
