// The run's test data, one sample after the other.
import { h } from "./dom.js";

export function sampleBar(show) {
  let count = 0;
  let at = -1;
  const place = h("input", { type: "number", class: "sample-number", min: 0, step: 1, value: 0, "aria-label": "Number of the test sample", onchange: () => go(Number(place.value)) });
  const of = h("span");
  const button = (sign, title, action) => h("button", { type: "button", class: "icon", title, "aria-label": title, onclick: action }, sign);

  function go(to) {
    if (!count) return show(0);
    return show(((Math.round(to) || 0) % count + count) % count);
  }

  const self = {
    element: h("div", { class: "samples", role: "group", "aria-label": "Test data" },
      h("span", { class: "label" }, "Test sample", of),
      h("div", { class: "tool-row" },
        button("‹", "Previous test sample ([)", () => self.next(-1)), place, button("›", "Next test sample (])", () => self.next(1)),
        h("button", { type: "button", class: "plain-button", title: "Any test sample (r)", onclick: () => self.any() }, "Random"))),
    next: (by) => go(at < 0 ? (by > 0 ? 0 : -1) : at + by),
    any: () => go(Math.floor(Math.random() * Math.max(count, 1))),
    // The sample that is shown, -1 where it is none of them.
    tell(index, all = count) {
      if (index >= 0) at = index;
      count = all;
      place.max = Math.max(all - 1, 0);
      if (index >= 0) place.value = index;
      place.classList.toggle("past", index < 0);
      of.textContent = all ? `of ${all.toLocaleString("en")}` : "";
    },
  };
  return self;
}
