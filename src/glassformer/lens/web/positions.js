// Positions: every dimension of the table over the grid of patches (or along the text), and how alike positions are.
//
// similarity(s, t) = pos[s] · pos[t] / (|pos[s]| |pos[t]|)
import { extent, matrix } from "./data.js";
import { INK, scaleFor } from "./colours.js";
import { cells } from "./surface.js";

const GAP = 8;
const MOST = 256; // positions compared with each other; of more, every second, fourth, …

// The dimensions side by side, each a small map of the grid.
export function dimensionsPicture({ title, tensor, grid, first, chosen = () => -1 }) {
  const view = matrix(tensor);
  const [low, high] = extent(view);
  const [down, across] = grid;

  function layout(width) {
    const perRow = Math.max(2, Math.min(16, Math.floor((width + GAP) / 58), view.columns));
    const side = (width - GAP * (perRow - 1)) / perRow;
    const tall = (side * down) / across;
    return { perRow, side, tall, step: tall + GAP + 12 };
  }

  const place = (dimension, width) => {
    const { perRow, side, tall, step } = layout(width);
    return { x: (dimension % perRow) * (side + GAP), y: Math.floor(dimension / perRow) * step, width: side, height: tall };
  };

  return {
    title,
    height: (width) => Math.ceil(view.columns / layout(width).perRow) * layout(width).step,
    draw(surface, width, theme) {
      const ink = INK[theme];
      const { colour } = scaleFor(Math.min(low, -1e-9), high, theme);
      for (let dimension = 0; dimension < view.columns; dimension++) {
        const box = place(dimension, width);
        surface.raster(box.x, box.y, box.width, box.height, cells(down, across, (row, column) => colour(view.at(first + row * across + column, dimension))));
        if (dimension === chosen()) surface.rect(box.x - 1.5, box.y - 1.5, box.width + 3, box.height + 3, { stroke: ink.mark, line: 2 });
        surface.text(box.x, box.y + box.height + 10.5, String(dimension), { fill: dimension === chosen() ? ink.text : ink.quiet, size: 9.5 });
      }
    },
    hit(x, y, width) {
      const { perRow, side, tall, step } = layout(width);
      const [i, j] = [Math.floor(x / (side + GAP)), Math.floor(y / step)];
      const [inX, inY] = [x - i * (side + GAP), y - j * step];
      const dimension = j * perRow + i;
      if (x < 0 || y < 0 || inX >= side || inY >= tall || i >= perRow || dimension >= view.columns) return null;
      return { row: first + Math.floor((inY / tall) * down) * across + Math.floor((inX / side) * across), column: dimension };
    },
    box({ row, column }, width) {
      const box = place(column, width);
      const at = row - first;
      return { x: box.x + ((at % across) * box.width) / across, y: box.y + (Math.floor(at / across) * box.height) / down, width: box.width / across, height: box.height / down };
    },
    move: ({ row, column }, dx, dy) => ({ row, column: Math.min(Math.max(column + dx + dy * 8, 0), view.columns - 1) }),
    first: () => ({ row: first, column: 0 }),
  };
}

// How alike positions are, as a matrix that `heatmap` can draw.
export function similarity(tensor, count) {
  const [M, C] = tensor.shape;
  const all = Math.min(M, count || M);
  const step = Math.ceil(all / MOST);
  const places = Array.from({ length: Math.ceil(all / step) }, (_, i) => i * step);
  const n = places.length;
  const rows = places.map((place) => {
    const row = tensor.data.subarray(place * C, (place + 1) * C);
    let square = 0;
    for (const value of row) square += value * value;
    return { row, size: Math.sqrt(square) || 1 };
  });
  const data = new Float32Array(n * n);
  for (let i = 0; i < n; i++) {
    for (let j = i; j < n; j++) {
      let sum = 0;
      for (let c = 0; c < C; c++) sum += rows[i].row[c] * rows[j].row[c];
      data[i * n + j] = data[j * n + i] = sum / (rows[i].size * rows[j].size);
    }
  }
  return { data, rows: n, columns: n, step, index: (row, column) => row * n + column, at: (row, column) => data[row * n + column] };
}
