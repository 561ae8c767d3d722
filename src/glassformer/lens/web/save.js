// A picture as a file: drawn once more, with its title, on SVG or on a large canvas.
import { onCanvas, onSvg } from "./surface.js";
import { INK } from "./colours.js";

const MARGIN = 20;
const HEAD = 34;

export function asSvg(picture, width, theme) {
  const surface = onSvg();
  const size = draw(surface, picture, width, theme);
  return surface.written(size.width, size.height, picture.title);
}

export function asPng(picture, width, theme, sharpness = 3) {
  const size = { width: width + 2 * MARGIN, height: picture.height(width) + HEAD + 2 * MARGIN };
  const canvas = document.createElement("canvas");
  canvas.width = size.width * sharpness;
  canvas.height = size.height * sharpness;
  const context = canvas.getContext("2d");
  context.scale(sharpness, sharpness);
  draw(onCanvas(context), picture, width, theme);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

function draw(surface, picture, width, theme) {
  const ink = INK[theme];
  const size = { width: width + 2 * MARGIN, height: picture.height(width) + HEAD + 2 * MARGIN };
  surface.rect(0, 0, size.width, size.height, { fill: ink.ground });
  surface.text(MARGIN, MARGIN + 14, picture.title, { fill: ink.text, size: 14, weight: 600 });
  picture.draw(moved(surface, MARGIN, MARGIN + HEAD), width, theme);
  return size;
}

// The same surface with its origin elsewhere.
function moved(surface, dx, dy) {
  return {
    rect: (x, y, ...rest) => surface.rect(x + dx, y + dy, ...rest),
    line: (x1, y1, x2, y2, style) => surface.line(x1 + dx, y1 + dy, x2 + dx, y2 + dy, style),
    text: (x, y, ...rest) => surface.text(x + dx, y + dy, ...rest),
    raster: (x, y, ...rest) => surface.raster(x + dx, y + dy, ...rest),
  };
}

export async function save(picture, kind, width, theme) {
  const blob = kind === "svg"
    ? new Blob([asSvg(picture, width, theme)], { type: "image/svg+xml" })
    : await asPng(picture, width, theme);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `${picture.title.replace(/[^\w.-]+/g, "-")}.${kind}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
