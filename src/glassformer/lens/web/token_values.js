// One number for each token, as a colour: over the grid where the tokens are patches, else under the words.
import { h, number, shaded, visible } from "./dom.js";

// `most`: the number that is drawn strongest.
export function tokenValues(trace, sequence, row, most = Math.max(...row.map(Math.abs), 1e-12)) {
  const { grid, first = 0 } = trace.input;
  const names = trace.sequences[sequence];
  const cell = (i, words) => shaded(h("span", { class: words == null ? "patch-cell" : "chip", title: `${names[i] ?? i}: ${number(row[i], 3)}` }, words), row[i] / most, words == null ? 90 : 45);
  const chips = (many) => h("div", { class: "token-chips" }, Array.from({ length: many }, (_, i) => cell(i, visible(names[i] ?? String(i)))));
  if (!grid || sequence !== "tokens" || row.length !== names.length) return chips(row.length);
  const patches = h("div", { class: "patch-grid" }, Array.from({ length: row.length - first }, (_, i) => cell(first + i, null)));
  patches.style.setProperty("grid-template-columns", `repeat(${grid[1]}, 18px)`);
  return h("div", {}, first ? chips(first) : null, patches);
}
