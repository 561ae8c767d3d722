// A matrix as coloured cells, with a scale below it. Level of detail: where there are more cells than pixels, a pixel
// shows the largest, in magnitude, of the cells under it, so that nothing that stands out is lost.
import { number, visible } from "./dom.js";
import { extent } from "./data.js";
import { INK, scaleFor } from "./colours.js";
import { LEGEND, drawLegend, marksOf } from "./legend.js";
import { cells } from "./surface.js";

const TALLEST = 210;
const TALLEST_SQUARE = 320;
const LARGEST_CELL = 20;
const LABEL = 11; // pixels that the name of a row or a column takes
const FLAT = 24; // pixels: with longer names those of columns stand upright
const LONGEST = 12; // characters of it
const SHARPNESS = 2; // pixels of detail for each pixel of the page

export function heatmap({ title, view, rowName = "", columnName = "", part = "", range, tallest = TALLEST, scale = true, labels = null, perRow = false }) {
  let window_ = { row: 0, column: 0, rows: view.rows, columns: view.columns };
  const [low, high] = range ?? (perRow ? [0, 1] : extent(view));
  const largest = perRow ? Array.from({ length: view.rows }, (_, row) => largestIn(view, row)) : null;
  const shade = (row, column) => (perRow ? view.at(row, column) / largest[row] : view.at(row, column));
  const [left, top] = labels ? [marginOf(labels.rows), marginOf(labels.columns)] : [0, 0];
  const isOne = view.rows * view.columns === 1; // a single number is written out
  const axes = [part, `${rowName || "rows"} × ${columnName || "columns"}`].filter(Boolean).join(" · ");
  let drawn = null; // the cells as last coloured

  function size(whole) {
    const width = whole - left;
    const squared = view.rowAxis === "T" && "ST".includes(view.columnAxis); // token against token keeps its shape
    const most = squared ? Math.max(tallest, TALLEST_SQUARE) : tallest;
    const cell = Math.min(width / window_.columns, LARGEST_CELL, squared ? most / window_.rows : Infinity);
    const across = Math.max(Math.min(width, cell * window_.columns), Math.min(width, 36));
    const down = Math.min(Math.max(cell * window_.rows, window_.rows === 1 ? 22 : 40), most);
    return { across, down };
  }

  // How many rows and columns are coloured at a width.
  function detail(width) {
    const { across, down } = size(width);
    return { rows: Math.min(window_.rows, Math.ceil(down * SHARPNESS)), columns: Math.min(window_.columns, Math.ceil(across * SHARPNESS)) };
  }

  function coloured(width, theme) {
    const { rows, columns } = detail(width);
    const key = [rows, columns, theme, window_.row, window_.column, window_.rows].join();
    if (drawn?.key !== key) {
      const { colour } = scaleFor(low, high, theme);
      const picture = cells(rows, columns, (row, column) => colour(standsOut(row, column, rows, columns)));
      drawn = { key, picture };
    }
    return drawn.picture;
  }

  function standsOut(row, column, rows, columns) {
    const top = window_.row + Math.floor((row * window_.rows) / rows);
    const bottom = window_.row + Math.max(Math.floor(((row + 1) * window_.rows) / rows), Math.floor((row * window_.rows) / rows) + 1);
    const left = window_.column + Math.floor((column * window_.columns) / columns);
    const right = window_.column + Math.max(Math.floor(((column + 1) * window_.columns) / columns), Math.floor((column * window_.columns) / columns) + 1);
    let most = shade(top, left);
    for (let r = top; r < bottom; r++) {
      for (let c = left; c < right; c++) {
        const value = shade(r, c);
        if (Math.abs(value) > Math.abs(most)) most = value;
      }
    }
    return most;
  }

  // As many names as can be read.
  function drawLabels(surface, across, down, ink) {
    const draw = (names, from, count, length, place) => {
      const step = length / count;
      const every = Math.ceil(LABEL / step);
      for (let i = 0; i < count; i += every) place(visible(names[from + i] ?? "").slice(0, LONGEST), (i + 0.5) * step);
    };
    const style = { fill: ink.quiet, size: 10.5, mono: true };
    draw(labels.rows, window_.row, window_.rows, down, (words, at) => surface.text(left - 5, top + at + 4, words, { ...style, align: "right" }));
    const upright = top > FLAT;
    draw(labels.columns, window_.column, window_.columns, across, (words, at) => surface.text(left + at + (upright ? 4 : 0), top - 5, words, { ...style, upright, align: upright ? "left" : "center" }));
  }

  return {
    title,
    rows: view.rows,
    detail,
    height: (width) => top + size(width).down + (isOne ? 12 : scale ? LEGEND : 0),
    draw(surface, width, theme) {
      const { across, down } = size(width);
      const ink = INK[theme];
      surface.raster(left, top, across, down, coloured(width, theme));
      surface.rect(left, top, across, down, { stroke: ink.rule });
      if (labels) drawLabels(surface, across, down, ink);
      if (isOne) surface.text(across + 12, 0.5 * down + 6, number(view.at(0, 0), 5), { fill: ink.text, size: 17, weight: 600 });
      if (isOne || !scale) return;
      const { at, signed, colour } = scaleFor(low, high, theme);
      drawLegend(surface, top + down, width, theme, { colour: (x) => colour(at(x)), marks: marksOf({ at, signed }), name: perRow ? `${axes} · of the row’s largest` : axes });
    },
    hit(onX, onY, width) {
      const { across, down } = size(width);
      const [x, y] = [onX - left, onY - top];
      if (x < 0 || y < 0 || x >= across || y >= down) return null;
      return {
        row: window_.row + Math.floor((y / down) * window_.rows),
        column: window_.column + Math.floor((x / across) * window_.columns),
      };
    },
    // A cell; without a column the whole row, without a row the whole column.
    box({ row, column }, width) {
      const { across, down } = size(width);
      const w = across / window_.columns;
      const t = down / window_.rows;
      const box = {
        x: column == null ? 0 : (column - window_.column) * w, width: column == null ? across : w,
        y: row == null ? 0 : (row - window_.row) * t, height: row == null ? down : t,
      };
      return box.x > -1e-6 && box.y > -1e-6 && box.x < across && box.y < down ? { ...box, x: box.x + left, y: box.y + top } : null;
    },
    move: ({ row, column }, dx, dy) => ({
      row: Math.min(Math.max(row + dy, 0), view.rows - 1),
      column: Math.min(Math.max(column + dx, 0), view.columns - 1),
    }),
    first: () => ({ row: 0, column: 0 }),
    // Look closer around a cell, or (factor below 1) from further away.
    zoom(factor, around) {
      const rows = Math.round(Math.min(view.rows, Math.max(Math.min(view.rows, 8), window_.rows / factor)));
      const columns = Math.round(Math.min(view.columns, Math.max(Math.min(view.columns, 8), window_.columns / factor)));
      const begin = (at, count, all) => Math.min(Math.max(Math.round(at - count / 2), 0), all - count);
      window_ = { rows, columns, row: begin(around.row, rows, view.rows), column: begin(around.column, columns, view.columns) };
    },
    isZoomed: () => window_.rows < view.rows || window_.columns < view.columns,
  };
}

function largestIn(view, row) {
  let most = 0;
  for (let column = 0; column < view.columns; column++) most = Math.max(most, Math.abs(view.at(row, column)));
  return most || 1;
}

// Room for the longest name along an axis.
function marginOf(names) {
  return 10 + 6.4 * Math.min(LONGEST, names.reduce((most, name) => Math.max(most, visible(name).length), 1));
}
