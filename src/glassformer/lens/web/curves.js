// Curves over the epochs of a run: each line bears its name at its end, so that no legend is needed.
import { INK } from "./colours.js";

const TALL = 232;
const TOP = 12;
const FOOT = 34;
const LEFT = 46;
const NAMES = 84; // beside the lines, for their names
const LINES = {
  light: ["#1b5a9c", "#c2410c", "#6a6d75"],
  dark: ["#7db4ec", "#ff9d5c", "#9b9ea6"],
};

// lines: [{ name, at: (row) => number or null }]; `share`: the numbers are shares, shown in per cent.
export function curvesPicture({ title, rows, of, lines, share = false }) {
  const shown = lines.map((line, i) => ({ ...line, i, points: rows.map((row) => [row.epoch, line.at(row)]).filter(([, y]) => Number.isFinite(y)) })).filter((line) => line.points.length);
  const last = Math.max(of || 1, rows.at(-1)?.epoch ?? 1);
  const [low, high, ticks] = axis(shown.flatMap((line) => line.points.map(([, y]) => y)), share);
  const across = (width) => width - LEFT - NAMES;
  const x = (epoch, width) => LEFT + (last > 1 ? (epoch - 1) / (last - 1) : 0.5) * across(width);
  const y = (value) => TOP + (1 - (value - low) / (high - low)) * (TALL - TOP - FOOT);
  const written = (value) => (share ? `${plain(100 * value)} %` : plain(value));

  return {
    title,
    height: () => TALL,
    draw(surface, width, theme) {
      const ink = INK[theme];
      for (const tick of ticks) {
        surface.line(LEFT, y(tick), LEFT + across(width), y(tick), { stroke: ink.rule, opacity: 0.8 });
        surface.text(LEFT - 8, y(tick) + 4, written(tick), { fill: ink.quiet, size: 11.5, align: "right" });
      }
      for (const epoch of epochs(last, across(width))) surface.text(x(epoch, width), TALL - FOOT + 18, String(epoch), { fill: ink.quiet, size: 11.5, align: "center" });
      surface.text(LEFT + across(width), TALL - 2, "epoch", { fill: ink.quiet, size: 11.5, align: "right" });
      for (const { points, i } of shown) {
        const stroke = LINES[theme][i];
        points.slice(1).forEach((to, k) => surface.line(x(points[k][0], width), y(points[k][1]), x(to[0], width), y(to[1]), { stroke, line: 2 }));
        const dots = last <= 40 ? points : points.slice(-1);
        for (const [epoch, value] of dots) surface.rect(x(epoch, width) - 2.5, y(value) - 2.5, 5, 5, { fill: stroke, radius: 2.5 });
      }
      for (const { name, value, at, i } of labels(shown, y)) {
        const edge = Math.max(...shown.map((line) => x(line.points.at(-1)[0], width)));
        surface.rect(edge + 6, at - 8, NAMES - 10, 29, { fill: ink.ground, opacity: 0.85 });
        surface.text(edge + 9, at + 4, name, { fill: LINES[theme][i], size: 12, weight: 600 });
        surface.text(edge + 9, at + 18, share ? `${(100 * value).toFixed(2)} %` : value.toPrecision(3), { fill: LINES[theme][i], size: 11.5 });
      }
    },
    hit(px, py, width) {
      if (!rows.length || px < LEFT - 12 || px > LEFT + across(width) + 12) return null;
      const epoch = 1 + ((px - LEFT) / across(width)) * (last - 1);
      const at = rows.reduce((near, row, i) => (Math.abs(row.epoch - epoch) < Math.abs(rows[near].epoch - epoch) ? i : near), 0);
      return { row: at };
    },
    box: ({ row }, width) => (rows[row] ? { x: x(rows[row].epoch, width) - 0.5, y: TOP, width: 1, height: TALL - TOP - FOOT } : null),
    move: ({ row }, dx) => ({ row: Math.min(Math.max(row + dx, 0), rows.length - 1) }),
    first: () => ({ row: Math.max(rows.length - 1, 0) }),
  };
}

// Names at the ends of their lines, moved apart where they would overlap.
function labels(shown, y) {
  const placed = shown.map(({ name, points, i }) => ({ name, i, value: points.at(-1)[1], at: y(points.at(-1)[1]) })).sort((a, b) => a.at - b.at);
  const room = 31;
  placed.forEach((one, k) => { one.at = Math.max(one.at, k ? placed[k - 1].at + room : TOP); });
  for (let k = placed.length - 1; k >= 0; k--) placed[k].at = Math.min(placed[k].at, k === placed.length - 1 ? TALL - FOOT - 12 : placed[k + 1].at - room);
  return placed;
}

// From a round number to a round number. A loss begins at zero unless all of it lies far above; shares end at 100 %.
function axis(values, share) {
  if (!values.length) return [0, 1, [0, 0.5, 1]];
  const least = Math.min(...values);
  const most = share ? 1 : Math.max(...values);
  const bottom = share || least > 0.6 * most ? least : 0;
  const step = nice((most - bottom) / 4 || most / 4 || 1);
  const low = share ? Math.max(Math.floor(bottom / step) * step, 0) : Math.floor(bottom / step) * step;
  const high = share ? 1 : Math.ceil(most / step - 1e-9) * step;
  const ticks = [];
  for (let tick = low; tick <= high + step * 1e-6; tick += step) ticks.push(tick);
  return [low, Math.max(high, low + step), ticks];
}

function nice(size) {
  const power = 10 ** Math.floor(Math.log10(size));
  return power * [1, 2, 2.5, 5, 10].find((one) => one * power >= size * (1 - 1e-9));
}

function plain(value) {
  return String(Number(value.toPrecision(3)));
}

function epochs(last, width) {
  if (last < 2) return [1];
  const step = Math.max(1, Math.ceil(nice(last / Math.max(2, Math.min(8, width / 60)))));
  const found = [1];
  for (let epoch = step; epoch <= last; epoch += step) if (epoch > 1 && epoch - found.at(-1) >= Math.min(step, 2) - 1e-9) found.push(epoch);
  return found;
}
