// A text as its tokens, line after line; behind each, what the asking token gives to it.
import { visible } from "./dom.js";
import { INK, css, inkOn } from "./colours.js";
import { LEGEND } from "./legend.js";
import { drawOverlayLegend, overlay } from "./overlay.js";

const SIZE = 13;
const LINE = 27;
const PAD = 5;
const GAP = 3;
const CHIP = { light: [237, 234, 227], dark: [40, 44, 52] };
const AMOUNT = { light: [226, 128, 42], dark: [214, 130, 44] };

const ruler = document.createElement("canvas").getContext("2d");

function widthOf(words) {
  ruler.font = `${SIZE}px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace`;
  return ruler.measureText(words).width;
}

export function tokensPicture({ title, tokens, shares = () => null, query = () => -1, range = null, legend = null }) {
  const words = tokens.map((token) => visible(token).slice(0, 24));
  const widths = words.map((word) => Math.max(widthOf(word), 8) + 2 * PAD);
  let laid = null;

  function layout(width) {
    if (laid?.width !== width) {
      const boxes = [];
      let x = 0;
      let y = 0;
      widths.forEach((wide, i) => {
        if (x + wide > width && x > 0) { x = 0; y += LINE; }
        boxes.push({ x, y, width: Math.min(wide, width), height: LINE - 5 });
        x += wide + GAP;
        if (tokens[i].endsWith("\n")) { x = 0; y += LINE; }
      });
      laid = { width, boxes, height: (boxes.at(-1)?.y ?? 0) + LINE };
    }
    return laid;
  }

  return {
    title,
    height: (width) => layout(width).height + (legend ? LEGEND : 0),
    draw(surface, width, theme) {
      const ink = INK[theme];
      const given = shares();
      const { boxes, height } = layout(width);
      const shades = given && overlay(given, theme, { range, amount: AMOUNT[theme] });
      boxes.forEach((box, i) => {
        const chip = given && i < given.length ? upon(CHIP[theme], shades.colour(given[i]), shades.opacity(given[i])) : CHIP[theme];
        surface.rect(box.x, box.y, box.width, box.height, { fill: css(chip), radius: 4 });
        if (i === query()) surface.rect(box.x + 1, box.y + 1, box.width - 2, box.height - 2, { stroke: ink.text, line: 2, radius: 4 });
        surface.text(box.x + PAD, box.y + 15.5, words[i], { fill: inkOn(chip), size: SIZE, mono: true });
      });
      if (legend && given) drawOverlayLegend(surface, height - 6, width, theme, shades, CHIP[theme], legend());
    },
    hit(x, y, width) {
      const { boxes } = layout(width);
      const token = boxes.findIndex((box) => x >= box.x && x < box.x + box.width + GAP && y >= box.y && y < box.y + LINE);
      return token < 0 ? null : { token };
    },
    box: ({ token }, width) => layout(width).boxes[token],
    move: ({ token }, dx, dy) => ({ token: Math.min(Math.max(token + dx + dy * 8, 0), tokens.length - 1) }),
    first: () => ({ token: Math.max(query(), 0) }),
  };
}

function upon(ground, colour, opacity) {
  return ground.map((channel, i) => Math.round(channel + (colour[i] - channel) * opacity));
}
