// Find a tensor by its name, or by what the field calls it: all words, in any order.
import { h } from "./dom.js";
import { PHRASES, entryOf, isAbout } from "./glossary.js";

const MOST = 12;

export function searchBox(trace, go) {
  const list = h("ul", { class: "found", role: "listbox", id: "found", hidden: true });
  const input = h("input", { type: "search", placeholder: "Find…", "aria-label": "Find a tensor by its name, or by a word such as softmax", autocomplete: "off", spellcheck: "false",
    role: "combobox", "aria-controls": "found", "aria-expanded": "false" });
  let chosen = 0;
  let names = [];

  const close = () => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
  };
  const take = (name) => {
    close();
    input.value = "";
    input.blur();
    go(name);
  };
  const update = () => {
    names = matching(trace.names, input.value).slice(0, MOST);
    chosen = Math.min(chosen, Math.max(names.length - 1, 0));
    list.replaceChildren(...names.map((name, i) => h("li", { role: "option", "aria-selected": i === chosen, onpointerdown: (event) => { event.preventDefault(); take(name); } },
      h("code", {}, name), h("small", {}, trace.tensors[name].shape.join(" × ")))));
    const meant = entryOf(input.value.trim());
    if (meant && names.length) list.prepend(h("li", { class: "none means", role: "presentation" }, meant[2]));
    if (!names.length) list.replaceChildren(h("li", { class: "none" }, "No tensor is called so."));
    list.hidden = !input.value.trim();
    input.setAttribute("aria-expanded", String(!list.hidden));
  };
  input.addEventListener("input", () => { chosen = 0; update(); });
  input.addEventListener("blur", close);
  input.addEventListener("focus", update);
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && names.length) { chosen = (chosen + step + names.length) % names.length; update(); event.preventDefault(); }
    else if (event.key === "Enter" && names.length) take(names[chosen]);
    else if (event.key === "Escape") { input.value = ""; close(); input.blur(); }
  });
  return { element: h("div", { class: "search" }, input, list), focus: () => input.focus() };
}

// First what is called so, then what begins so, then what has it somewhere.
export function matching(names, words) {
  const typed = words.toLowerCase();
  const phrases = PHRASES.filter((phrase) => typed.includes(phrase));
  const rest = phrases.reduce((text, phrase) => text.replace(phrase, " "), typed);
  const wanted = [...phrases, ...rest.split(/\s+/).filter(Boolean)];
  const found = names.filter((name) => isAbout(words.trim(), name) || wanted.every((word) => name.toLowerCase().includes(word) || isAbout(word, name)));
  const rank = (name) => {
    const own = name.slice(name.lastIndexOf(".") + 1).toLowerCase();
    return own === wanted.at(-1) ? 0 : own.startsWith(wanted.at(-1)) || isAbout(words.trim(), name) ? 1 : 2;
  };
  return found.sort((a, b) => rank(a) - rank(b));
}
