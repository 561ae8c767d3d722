// The columns of a matrix side by side, each as a small map of the grid of patches: the dimensions of the positions, or
// how alike each position is to the others.
import { extent } from "./data.js";
import { INK, scaleFor } from "./colours.js";
import { LEGEND, drawLegend, marksOf } from "./legend.js";
import { cells } from "./surface.js";

const GAP = 8;
const NAME = 14; // room below a map for its number

// `first`: rows in front of the grid; `from`: the first column that is drawn; `perRow`: maps in a row, else what fits.
export function mapsPicture({ title, view, grid, first = 0, from = 0, perRow = 0, names = true, range = null, legend = "" }) {
  const [down, across] = grid;
  const count = view.columns - from;
  const [low, high] = range ?? extent(view);
  const gap = perRow ? GAP / 2 : GAP;

  function layout(width) {
    const many = perRow || whole(Math.max(2, Math.min(16, Math.floor((width + gap) / 43), count)));
    const side = (width - gap * (many - 1)) / many;
    const tall = (side * down) / across;
    return { many, side, tall, step: tall + (names ? NAME : 0) + gap, lines: Math.ceil(count / many) };
  }

  // Rather a few less in a row than a last row that is not full.
  function whole(most) {
    for (let many = most; many > 0.6 * most; many--) if (count % many === 0) return many;
    return most;
  }

  const place = (map, width) => {
    const { many, side, tall, step } = layout(width);
    return { x: (map % many) * (side + gap), y: Math.floor(map / many) * step, width: side, height: tall };
  };
  const mapsHeight = (width) => layout(width).lines * layout(width).step - gap;

  return {
    title,
    height: (width) => mapsHeight(width) + LEGEND,
    draw(surface, width, theme) {
      const ink = INK[theme];
      const scale = scaleFor(Math.min(low, -1e-9), high, theme);
      for (let map = 0; map < count; map++) {
        const box = place(map, width);
        surface.raster(box.x, box.y, box.width, box.height, cells(down, across, (row, column) => scale.colour(view.at(first + row * across + column, from + map))));
        if (names) surface.text(box.x, box.y + box.height + 11, String(from + map), { fill: ink.quiet, size: 10 });
      }
      drawLegend(surface, mapsHeight(width), width, theme, { colour: (x) => scale.colour(scale.at(x)), marks: marksOf(scale), name: legend });
    },
    hit(x, y, width) {
      const { many, side, tall, step } = layout(width);
      const [i, j] = [Math.floor(x / (side + gap)), Math.floor(y / step)];
      const [inX, inY] = [x - i * (side + gap), y - j * step];
      const map = j * many + i;
      if (x < 0 || y < 0 || inX >= side || inY >= tall || i >= many || map >= count) return null;
      return { row: first + Math.floor((inY / tall) * down) * across + Math.floor((inX / side) * across), column: from + map };
    },
    box({ row, column }, width) {
      const box = place(column - from, width);
      const at = row - first;
      return { x: box.x + ((at % across) * box.width) / across, y: box.y + (Math.floor(at / across) * box.height) / down, width: box.width / across, height: box.height / down };
    },
    move: ({ row, column }, dx, dy) => ({ row, column: Math.min(Math.max(column + dx + dy * (perRow || 8), from), view.columns - 1) }),
    first: () => ({ row: first, column: from }),
  };
}
