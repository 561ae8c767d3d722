// Which run looks at the input, and which other one beside it.
import { h } from "./dom.js";

// What a run reads: only runs of which this is the same can look at one input.
export function reads(run) {
  return `${run.kind} ${run.shape ?? ""}`;
}

export function runSelect(choose) {
  const run = h("select", { id: "run", onchange: () => choose({ run: run.value }) });
  const compare = h("select", { id: "compare", onchange: () => choose({ compare: compare.value }) });
  const option = (one, name) => h("option", { value: one.name, selected: one.name === name, disabled: one.state === "broken" },
    [one.title, one.accuracy == null ? "" : `${(100 * one.accuracy).toFixed(1)} %`, one.state === "finished" ? "" : one.state].filter(Boolean).join(" · "));

  // An open list does not close because the same list came again.
  function fill(select, options) {
    const written = JSON.stringify(options.map((one) => [one.value, one.textContent, one.selected]));
    if (select.dataset.written === written) return;
    select.dataset.written = written;
    select.replaceChildren(...options);
  }

  return {
    element: h("div", { class: "choosers" }, h("label", {}, h("span", {}, "Run"), run), h("label", { class: "compare" }, h("span", {}, "compare with"), compare)),
    offer(runs, chosen) {
      const first = runs.find((one) => one.name === chosen.run);
      const others = runs.filter((one) => one !== first && one.state !== "broken" && reads(one) === reads(first));
      fill(run, runs.map((one) => option(one, chosen.run)));
      fill(compare, [h("option", { value: "" }, others.length ? "no other run" : "no run that reads the same"), ...others.map((one) => option(one, chosen.compare))]);
      compare.disabled = !others.length;
    },
  };
}
