// One bar per class, the likeliest marked.
import { percent, visible } from "./dom.js";
import { INK } from "./colours.js";

const LINE = 16;
const MOST = 12;

export function barsPicture({ title, names, shares, label }) {
  const order = names.map((_, i) => i);
  if (names.length > MOST) order.sort((a, b) => shares[b] - shares[a]).splice(MOST);
  const best = shares.indexOf(Math.max(...shares));
  return {
    title,
    height: () => order.length * LINE,
    draw(surface, width, theme) {
      const ink = INK[theme];
      const left = Math.min(96, 14 + 7 * Math.max(...order.map((i) => visible(names[i]).length)));
      const room = width - left - 58;
      order.forEach((i, line) => {
        const y = line * LINE;
        const strong = i === best;
        surface.text(left - 10, y + 12, visible(names[i]).slice(0, 12), { fill: strong ? ink.text : ink.quiet, size: 12.5, align: "right", weight: strong ? 650 : 400 });
        surface.rect(left, y + 3, room, 10, { fill: ink.rule, opacity: 0.45, radius: 3 });
        surface.rect(left, y + 3, Math.max(room * shares[i], 1.5), 10, { fill: strong ? ink.mark : ink.quiet, radius: 3 });
        surface.text(width, y + 12, percent(shares[i]), { fill: strong ? ink.text : ink.quiet, size: 12, align: "right", weight: strong ? 650 : 400 });
        const inside = shares[i] > 0.6; // on the bar, else on what is left of the line
        if (i === label) surface.text(left + room * (inside ? shares[i] : 1) - 6, y + 11.5, "label", { fill: inside ? ink.ground : ink.quiet, size: 10.5, weight: 600, align: "right" });
      });
    },
    hit: () => null,
  };
}
