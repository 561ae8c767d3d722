// A text, or a row of numbers, as it is typed.
import { h } from "./dom.js";

const QUIET = 150; // milliseconds without a key before the model is asked

export function openTextInput(kind, { onChange }) {
  let about = null; // what came from the test data, as long as it is not touched
  let timer = 0;
  const hint = kind === "row" ? "numbers with commas between: 5.1, 3.5, 1.4, 0.2" : "write something";
  const field = kind === "row"
    ? h("input", { class: "writing row", type: "text", "aria-label": "The row of numbers", placeholder: hint, spellcheck: "false", autocomplete: "off" })
    : h("textarea", { class: "writing", rows: 8, "aria-label": "The text", placeholder: hint, spellcheck: "false" });
  field.addEventListener("input", () => {
    about = null;
    clearTimeout(timer);
    timer = setTimeout(() => onChange(null), QUIET);
  });
  const element = h("div", { class: "source" }, field,
    h("p", { class: "small" }, "What the model makes of it follows as you type."));
  return {
    element,
    input: () => ({ text: field.value, target: about?.target ?? null }),
    missing: () => (field.value.trim() ? "" : kind === "row" ? "Write a row of numbers." : "Write something."),
    sample: () => about?.sample ?? null,
    show(text, from) {
      about = from;
      field.value = text;
      onChange(null);
    },
    undo() {},
    clear() { field.value = ""; about = null; onChange(null); },
    erase() {},
    focus: () => field.focus(),
  };
}
