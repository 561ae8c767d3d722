// Keys for the whole page. Inside a picture the arrow keys move from cell to cell (figure.js).
import { h } from "./dom.js";

export const KEYS = [
  ["n", "p", "next and previous step"],
  ["b", "", "forward or backward"],
  ["1", "9", "head"],
  [",", ".", "previous and next attention layer"],
  ["m", "", "self or causal mask"],
  ["/", "", "find a tensor"],
  ["v", "", "the whole model"],
  ["r", "", "read the model step by step; pause"],
  ["w", "", "the walk"],
  ["a", "", "all attention maps"],
  ["o", "", "positions"],
  ["i", "", "what if"],
  ["y", "", "why"],
  ["d", "", "the device’s numbers, where one was asked"],
  ["t", "", "light or dark"],
  ["arrows", "", "in a picture: from cell to cell, with Shift eight at once; Enter keeps one"],
  ["+", "−", "in a heat map: closer and further"],
  ["Esc", "", "let go of the cell that was kept"],
  ["?", "", "this list"],
];

export function listen(actions, signal) {
  window.addEventListener("keydown", (event) => {
    const typing = event.target instanceof Element && event.target.closest("input:not([type=range]), textarea, dialog");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const action = /^[1-9]$/.test(event.key) ? () => actions.head(Number(event.key) - 1) : actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }, { signal });
}

export function shortcutsDialog() {
  const dialog = h("dialog", { class: "keys", "aria-label": "Keys" },
    h("h2", {}, "Keys"),
    h("dl", {}, KEYS.map(([a, b, what]) => h("div", {}, h("dt", {}, h("kbd", {}, a), b ? [a === "1" ? " … " : " ", h("kbd", {}, b)] : null), h("dd", {}, what)))),
    h("form", { method: "dialog" }, h("button", { class: "plain-button" }, "Close")));
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  return dialog;
}
