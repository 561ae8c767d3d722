// Positions: every dimension of the table over the grid of patches (or along the text), and how alike positions are.
import { h } from "./dom.js";
import { matrix } from "./data.js";
import { figure } from "./figure.js";
import { heatmap } from "./heatmap.js";
import { mapsPicture } from "./maps.js";
import { likenessView, similarityOf } from "./similarity.js";

const TILES = 14; // of a larger grid the likeness is drawn as one heat map

export function positionsView(trace, on) {
  const tensor = trace.positions && trace.tensor(trace.positions);
  if (!tensor) return h("article", { class: "step" }, h("header", {}, h("h2", {}, "Positions"), h("p", { class: "about" }, "This model has no table of positions.")));
  const { grid, first = 0 } = trace.input;
  const before = trace.first_position ?? 0; // rows in front of the first token's: of padding, or of nobody
  const count = Math.min((trace.sequences.tokens.length || tensor.shape[0]) + before, tensor.shape[0]);
  const likeness = similarityOf(tensor, count);
  const drawn = shown(tensor, matrix(tensor), (view) => (grid
    ? mapsPicture({ title: "Positions: each dimension over the grid", view, grid, first })
    : heatmap({ title: "Positions along the text", view: { ...view, rows: Math.min(count, view.rows) }, rowName: "places", columnName: "dimensions" })));
  const alike = shown(likeness, likenessView(likeness), (view) => (grid && Math.max(...grid) <= TILES
    ? mapsPicture({ title: "How alike positions are", view, grid, first, perRow: grid[1], from: first, names: false, range: [-1, 1], legend: "cosine" })
    : heatmap({ title: "How alike positions are", view, rowName: "places", columnName: "places", range: [-1, 1] })));

  function shown(of, view, pictureOf) {
    return figure(pictureOf(view), { onPoint: (cell) => on.point(of, view, cell), onPick: (cell) => (of === tensor ? on.pick(of, view, cell) : null), tools: "apart" });
  }

  return h("article", { class: "step" },
    h("header", {}, h("h2", {}, "Positions"),
      h("p", { class: "about" }, `${trace.positions}: ${tensor.shape[0]} ${before ? "rows" : "places"}, ${tensor.shape[1]} numbers each. They are added to the tokens, so that attention can tell places apart.${before ? ` The first token reads row ${before}, padding row ${before - 1}.` : ""}`)),
    section(grid ? "Each dimension, over the grid of patches" : "Each dimension, along the text", "", drawn),
    section("How alike two positions are", [
      grid ? "One small map for each patch, at its own place: how alike its position is to that of every other. " : "",
      `The cosine between them${likeness.step > 1 ? `, of every ${likeness.step}th` : ""}: 1 is the same direction, 0 has nothing in common.`].join(""), alike, "narrow"));
}

function section(title, about, { element, tools }, name = "") {
  return h("section", { class: name }, h("h3", { class: "section" }, title, tools), about ? h("p", { class: "small" }, about) : null, element);
}
