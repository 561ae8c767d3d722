// One number for each token, as a row of coloured cells: tokens are columns.
import { INK, scaleFor } from "./colours.js";
import { cells } from "./surface.js";

const HEIGHT = 18;
const GREY = { light: [[246, 245, 242], [128, 131, 139]], dark: [[30, 33, 39], [150, 154, 164]] };

// `kind` is adds, back or size.
export function stripPicture({ title, values, limit, kind = "size", query = () => -1 }) {
  const count = values.length;
  const clamp = (token) => Math.min(Math.max(token, 0), count - 1);
  return {
    title,
    height: () => HEIGHT,
    draw(surface, width, theme) {
      const { colour: signed } = scaleFor(-1, 1, theme);
      const [from, to] = GREY[theme];
      const colour = { adds: signed, back: (x) => signed(-x), size: (x) => from.map((one, i) => Math.round(one + (to[i] - one) * x * x)) }[kind];
      const many = Math.min(count, Math.ceil(2 * width)); // no more cells than pixels; each shows its largest
      surface.raster(0, 0, width, HEIGHT, cells(1, many, (_, i) => colour(Math.sqrt(Math.min(largest(i, many) / (limit || 1), 1)))));
      surface.rect(0, 0, width, HEIGHT, { stroke: INK[theme].rule });
      const asked = query();
      if (asked >= 0 && asked < count) {
        const box = this.box({ token: asked }, width);
        surface.rect(box.x, box.y, Math.max(box.width, 2), box.height, { stroke: INK[theme].text, line: 1.5 });
      }
    },
    hit: (x, y, width) => (x < 0 || x >= width || y < 0 || y >= HEIGHT ? null : { token: clamp(Math.floor((x / width) * count)) }),
    box: ({ token }, width) => ({ x: (token * width) / count, y: 0, width: width / count, height: HEIGHT }),
    move: ({ token }, dx) => ({ token: clamp(token + dx) }),
    first: () => ({ token: clamp(query()) }),
  };

  function largest(i, many) {
    let most = 0;
    for (let at = Math.floor((i * count) / many); at < Math.max(Math.floor(((i + 1) * count) / many), Math.floor((i * count) / many) + 1); at++) most = Math.max(most, values[at]);
    return most;
  }
}
