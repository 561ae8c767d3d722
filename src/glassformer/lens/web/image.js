// The image with its patches; over it, what one patch gives to every other. Blue and orange where it can be negative.
import { bytesOf } from "./data.js";
import { INK, css } from "./colours.js";
import { LEGEND } from "./legend.js";
import { drawOverlayLegend, overlay } from "./overlay.js";
import { cells } from "./surface.js";

const pixels = new WeakMap(); // of each input, as a small canvas

function imageOf(input) {
  if (!pixels.has(input)) {
    const [rows, columns, channels] = input.shape;
    const bytes = bytesOf(input.pixels);
    const canvas = cells(rows, columns, (row, column) => {
      const at = (row * columns + column) * channels;
      return channels === 1 ? [bytes[at], bytes[at], bytes[at]] : [bytes[at], bytes[at + 1], bytes[at + 2]];
    });
    pixels.set(input, canvas);
  }
  return pixels.get(input);
}

// `shares()` gives one number per token, or null for the bare image; `query()` the token that asks; `legend()` says what
// the numbers are, for a scale below the image.
export function imagePicture({ title, input, shares = () => null, query = () => -1, grid = true, largest = 460, range = null, legend = null }) {
  const [rows, columns] = input.shape;
  const [down, across] = input.grid ?? [1, 1];
  const first = input.first ?? 0;
  const room = first ? 0.16 : 0; // beside the image, for the tokens in front of the patches: class, distillation

  function size(width) {
    const w = Math.min(width / (1 + room), largest);
    return { w, h: (w * rows) / columns, chip: w * room };
  }

  function place(token, width) {
    const { w, h, chip } = size(width);
    if (token < first) return { x: w + chip * 0.2, y: token * (chip * 0.8 + 24), width: chip * 0.8, height: chip * 0.8 };
    const at = token - first;
    return { x: ((at % across) * w) / across, y: (Math.floor(at / across) * h) / down, width: w / across, height: h / down };
  }

  return {
    title,
    height: (width) => size(width).h + (legend ? LEGEND : 0),
    draw(surface, width, theme) {
      const { w, h } = size(width);
      const ink = INK[theme];
      const given = shares();
      surface.raster(0, 0, w, h, imageOf(input));
      if (given) {
        const shades = overlay(given, "dark", { range });
        const { colour, opacity } = shades;
        surface.rect(0, 0, w, h, { fill: "#000000", opacity: 0.25 });
        surface.raster(0, 0, w, h, cells(down, across, (row, column) => {
          const value = given[first + row * across + column];
          return [...colour(value), Math.round(255 * opacity(value))];
        }));
        for (let token = 0; token < first; token++) {
          const box = place(token, width);
          surface.rect(box.x, box.y, box.width, box.height, { fill: css(colour(given[token])), opacity: Math.max(opacity(given[token]), 0.15), radius: 3 });
          if (box.width > 34) surface.text(box.x, box.y + box.height + 14, input.front[token], { fill: ink.quiet, size: 11 });
        }
        if (legend) drawOverlayLegend(surface, h, w, theme, shades, [12, 12, 14], legend());
      }
      if (grid && input.grid) {
        for (let i = 1; i < across; i++) surface.line((i * w) / across, 0, (i * w) / across, h, { stroke: "#ffffff", opacity: 0.17 });
        for (let i = 1; i < down; i++) surface.line(0, (i * h) / down, w, (i * h) / down, { stroke: "#ffffff", opacity: 0.17 });
      }
      surface.rect(0, 0, w, h, { stroke: ink.rule });
      if (query() >= 0 && input.grid) {
        const box = place(query(), width);
        const inset = Math.min(1.5, box.width / 8);
        surface.rect(box.x + inset, box.y + inset, box.width - 2 * inset, box.height - 2 * inset, { stroke: "#000000", line: Math.min(4, box.width / 5) });
        surface.rect(box.x + inset, box.y + inset, box.width - 2 * inset, box.height - 2 * inset, { stroke: "#ffffff", line: Math.min(2, box.width / 9) });
      }
    },
    hit(x, y, width) {
      if (!input.grid) return null;
      const { w, h } = size(width);
      if (x < 0 || y < 0 || y >= h) return null;
      if (x >= w) {
        for (let token = 0; token < first; token++) {
          const box = place(token, width);
          if (y >= box.y && y < box.y + box.height && x < box.x + box.width) return { token };
        }
        return null;
      }
      return { token: first + Math.floor((y / h) * down) * across + Math.floor((x / w) * across) };
    },
    box: ({ token }, width) => place(token, width),
    move({ token }, dx, dy) {
      if (token < first) return { token: dy && token + dy >= 0 && token + dy < first ? token + dy : first };
      const at = token - first;
      const column = (at % across) + dx;
      const row = Math.floor(at / across) + dy;
      if (first && (column >= across || row < 0)) return { token: 0 };
      return { token: first + Math.min(Math.max(row, 0), down - 1) * across + Math.min(Math.max(column, 0), across - 1) };
    },
    first: () => ({ token: Math.max(query(), 0) }),
  };
}
