// A text that grows in the page: what was read, and behind it, marked, what is written, the likeliest token each time.
import { h, percent } from "./dom.js";

// `next(ids)` gives { word, ids, probabilities, id } of the token behind these; without ids, behind the text that was read.
export function growingText(trace, next) {
  const element = h("p", { class: "grown", "aria-live": "polite", hidden: true }, trace.sequences.tokens.join(""));
  let ids;

  function write() {
    const step = next(ids);
    ids = step.ids;
    element.hidden = false;
    element.append(h("mark", { title: percent(step.probabilities[step.id]) }, step.word));
  }

  return { element, write };
}
