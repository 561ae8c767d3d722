// The scale of a picture: a strip of its colours, the numbers at its ends, and what they are numbers of.
import { number } from "./dom.js";
import { INK } from "./colours.js";
import { cells } from "./surface.js";

export const LEGEND = 40; // its height, with the room above it
const STRIP = 140;

// `colour(x)` at the places 0..1; `marks` are [place, words]; `name` stands on the right where there is room for it.
export function drawLegend(surface, top, width, theme, { colour, marks, name = "" }) {
  const ink = INK[theme];
  const across = Math.min(width, STRIP);
  const y = top + 12;
  surface.raster(0, y, across, 7, cells(1, 70, (_, i) => colour(i / 69)));
  for (const [x, words] of marks) {
    const align = x === 0 ? "left" : x === 1 ? "right" : "center";
    surface.text(x * across, y + 20, words, { fill: ink.quiet, size: 11, align });
  }
  if (name && width - across > 14 + 5.5 * name.length) surface.text(width, y + 8, name, { fill: ink.quiet, size: 11, align: "right" });
}

// Of a scale (colours.js): its ends, and the middle where that is no crowd.
export function marksOf({ at, signed }) {
  const [low, middle, high] = [0, 0.5, 1].map((x) => number(at(x), 2));
  return signed || (low + middle + high).length < 12 ? [[0, low], [0.5, middle], [1, high]] : [[0, low], [1, high]];
}
