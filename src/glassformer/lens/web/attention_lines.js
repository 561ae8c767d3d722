// Attention as lines between tokens: on the left the tokens that ask, on the right those that are looked at, a colour for
// each head, the stronger the more of its attention goes there.
import { visible } from "./dom.js";
import { INK, css } from "./colours.js";

const HEADS = [[31, 119, 180], [214, 96, 20], [44, 140, 60], [176, 60, 160], [140, 110, 20], [20, 140, 150], [200, 50, 70], [110, 90, 200]];
const TALLEST = 760;
const LINE = 19; // the height of a token, where there is room
const READABLE = 11; // with less, not every token is named
const MOST = 24_000; // lines: of more, those of the token that asks are drawn alone
const FAINT = 0.02; // shares below this are not drawn

export const colourOf = (head) => HEADS[head % HEADS.length];

// `patternOf(head)` gives T x S shares; `heads()` those that are drawn; `query()` the token that asks, `key()` the one
// that is looked at: -1 for all.
export function linesPicture({ title, queries, keys, patternOf, heads, query, key = () => -1 }) {
  const [T, S] = [queries.length, keys.length];
  const most = Math.max(T, S, 1);
  const line = Math.min(LINE, TALLEST / most);
  const every = Math.max(1, Math.ceil(READABLE / line));
  const room = (width) => Math.min(150, width * 0.3);
  const middle = (i) => (i + 0.5) * line;

  function drawLines(surface, width, focus) {
    const [left, right] = [room(width) + 6, width - room(width) - 6];
    const all = T * S * heads().length <= MOST;
    const [first, end] = focus.key >= 0 ? [focus.key, focus.key + 1] : [0, S];
    for (const head of heads()) {
      const pattern = patternOf(head);
      for (let t = 0; t < T; t++) {
        const isAsked = focus.key >= 0 ? true : t === focus.query;
        if (!isAsked && (!all || focus.only)) continue;
        for (let s = first; s < end; s++) {
          const share = pattern[t * S + s];
          if (share < FAINT) continue;
          surface.line(left, middle(t), right, middle(s), { stroke: css(colourOf(head)), line: isAsked ? 1 + 2.5 * share : 1, opacity: isAsked ? 0.25 + 0.75 * share : 0.3 * share });
        }
      }
    }
  }

  function drawTokens(surface, width, theme, names, isLeft, chosen) {
    const ink = INK[theme];
    names.forEach((name, i) => {
      if (i % every && i !== chosen) return;
      const words = visible(name).slice(0, 18);
      surface.text(isLeft ? room(width) : width - room(width), middle(i) + 4, words, { fill: i === chosen ? ink.text : ink.quiet, size: Math.min(13, Math.max(line, READABLE) - 1), mono: true, weight: i === chosen ? 700 : 400, align: isLeft ? "right" : "left" });
    });
  }

  return {
    title,
    height: () => most * line + 4,
    draw(surface, width, theme) {
      const focus = { query: query(), key: key(), only: this.pointed };
      drawLines(surface, width, focus);
      drawTokens(surface, width, theme, queries, true, focus.key >= 0 ? -1 : focus.query);
      drawTokens(surface, width, theme, keys, false, focus.key);
    },
    pointed: false, // then only the lines of one token are drawn
    hit(x, y, width) {
      const side = x < width / 2 ? "query" : "key";
      const token = Math.floor(y / line);
      return token >= 0 && token < (side === "query" ? T : S) ? { side, token } : null;
    },
    box: ({ side, token }, width) => ({ x: side === "query" ? 0 : width - room(width), y: token * line, width: room(width), height: line }),
    move({ side, token }, dx, dy) {
      const next = dx ? (dx < 0 ? "query" : "key") : side;
      return { side: next, token: Math.min(Math.max(token + dy, 0), (next === "query" ? T : S) - 1) };
    },
    first: () => ({ side: "query", token: Math.max(query(), 0) }),
  };
}
