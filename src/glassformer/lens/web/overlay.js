// What a token gives to others, drawn over them: little is see-through, much is solid; negative numbers are blue.
import { number, percent } from "./dom.js";
import { scaleFor } from "./colours.js";
import { drawLegend } from "./legend.js";

const SOLID = 0.94;
const AMOUNT = [255, 176, 0];

// `range` fixes the scale to other numbers than those that are drawn; `amount` is the colour of what has no sign.
export function overlay(given, theme, { range = null, amount = AMOUNT } = {}) {
  let [low, high] = [0, 0];
  for (const value of range ?? given) [low, high] = [Math.min(low, value), Math.max(high, value)];
  const limit = Math.max(-low, high) || 1;
  const signed = low < 0;
  const { colour } = scaleFor(-1, 1, theme);
  return {
    limit, signed,
    colour: (value) => (signed ? colour(value < 0 ? -0.8 : 0.8) : amount),
    opacity: (value) => SOLID * Math.min(1, Math.abs(value) / limit) ** 0.7,
  };
}

// Under the picture: what the colours stand for, as they look upon `ground`.
export function drawOverlayLegend(surface, top, width, theme, { limit, signed, colour, opacity }, ground, name) {
  const value = (x) => (signed ? 2 * x - 1 : x) * limit;
  const upon = (x) => colour(value(x)).map((channel, i) => Math.round(ground[i] + (channel - ground[i]) * opacity(value(x))));
  const marks = signed ? [[0, number(-limit, 2)], [0.5, "0"], [1, number(limit, 2)]] : [[0, "0 %"], [1, percent(limit)]];
  drawLegend(surface, top, width, theme, { colour: upon, marks, name });
}
