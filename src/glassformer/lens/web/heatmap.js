// A matrix as coloured cells, with a scale below it. Level of detail: where there are more cells than pixels, a pixel
// shows the largest, in magnitude, of the cells under it, so that nothing that stands out is lost.
import { number } from "./dom.js";
import { extent } from "./data.js";
import { INK, scaleFor } from "./colours.js";
import { LEGEND, drawLegend, marksOf } from "./legend.js";
import { cells } from "./surface.js";

const TALLEST = 210;
const TALLEST_SQUARE = 320;
const LARGEST_CELL = 20;
const SHARPNESS = 2; // pixels of detail for each pixel of the page

export function heatmap({ title, view, rowName = "", columnName = "", part = "", range, tallest = TALLEST, scale = true }) {
  let window_ = { row: 0, column: 0, rows: view.rows, columns: view.columns };
  const [low, high] = range ?? extent(view);
  const isOne = view.rows * view.columns === 1; // a single number is written out
  const axes = [part, `${rowName || "rows"} × ${columnName || "columns"}`].filter(Boolean).join(" · ");
  let drawn = null; // the cells as last coloured

  function size(width) {
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
    let most = view.at(top, left);
    for (let r = top; r < bottom; r++) {
      for (let c = left; c < right; c++) {
        const value = view.at(r, c);
        if (Math.abs(value) > Math.abs(most)) most = value;
      }
    }
    return most;
  }

  return {
    title,
    rows: view.rows,
    detail,
    height: (width) => size(width).down + (isOne ? 12 : scale ? LEGEND : 0),
    draw(surface, width, theme) {
      const { across, down } = size(width);
      const ink = INK[theme];
      surface.raster(0, 0, across, down, coloured(width, theme));
      surface.rect(0, 0, across, down, { stroke: ink.rule });
      if (isOne) surface.text(across + 12, 0.5 * down + 6, number(view.at(0, 0), 5), { fill: ink.text, size: 17, weight: 600 });
      if (isOne || !scale) return;
      const { at, signed, colour } = scaleFor(low, high, theme);
      drawLegend(surface, down, width, theme, { colour: (x) => colour(at(x)), marks: marksOf({ at, signed }), name: axes });
    },
    hit(x, y, width) {
      const { across, down } = size(width);
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
      return box.x > -1e-6 && box.y > -1e-6 && box.x < across && box.y < down ? box : null;
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
