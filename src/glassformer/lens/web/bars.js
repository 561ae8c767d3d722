// One bar per class, the likeliest marked.
import { percent, visible } from "./dom.js";
import { INK } from "./colours.js";

const LINE = 19;
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
        surface.text(left - 10, y + 14, visible(names[i]).slice(0, 12), { fill: strong ? ink.text : ink.quiet, size: 12.5, align: "right", weight: strong ? 650 : 400 });
        surface.rect(left, y + 4, room, 12, { fill: ink.rule, opacity: 0.45, radius: 3 });
        surface.rect(left, y + 4, Math.max(room * shares[i], 1.5), 12, { fill: strong ? ink.mark : ink.quiet, radius: 3 });
        surface.text(width, y + 14, percent(shares[i]), { fill: strong ? ink.text : ink.quiet, size: 12, align: "right", weight: strong ? 650 : 400 });
        if (i === label) surface.text(left + room - 6, y + 13.5, "label", { fill: shares[i] > 0.8 ? ink.ground : ink.quiet, size: 10.5, weight: 600, align: "right" });
      });
    },
    hit: () => null,
  };
}
