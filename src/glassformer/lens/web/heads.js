// All layers and heads of a run, small; they stay in place while the trace behind them changes.
import { h } from "./dom.js";
import { patternPicture, sharesOf } from "./attention.js";
import { livePicture } from "./live_picture.js";
import { figure } from "./figure.js";
import { imagePicture } from "./image.js";

export function headsView(asking) {
  const element = h("div", { class: "heads" });
  let trace = null;
  let built = "";
  let thumbs = [];

  function build() {
    thumbs = [];
    const isImage = Boolean(trace.input.grid);
    element.replaceChildren(...trace.attention.map((layer, at) => h("section", { class: "layer" },
      h("h3", {}, layer.title),
      h("div", { class: isImage ? "head-row" : "head-row broad" }, Array.from({ length: layer.heads }, (_, head) => {
        const now = () => trace.attention[at];
        const choose = () => asking.set({ layer: now().name, head });
        const picture = livePicture(`${layer.title}, head ${head}`, () => (isImage
          ? imagePicture({ title: "", input: trace.input, grid: false, shares: () => sharesOf(trace, now(), head, asking.queryOf(trace, now()), asking.settings()), query: () => asking.queryOf(trace, now()) })
          : patternPicture(trace, now(), head, asking.settings())));
        const drawn = figure(picture, { tools: false, plain: true });
        const name = h("button", { type: "button", class: "head-name", title: `${layer.title}, head ${head}`, onclick: choose }, `head ${head}`);
        const thumb = h("div", { class: "head", onclick: choose }, drawn.element, name);
        thumbs.push({ drawn, thumb, layer: now, head });
        return thumb;
      })))));
  }

  // `isNew`: pictures are made anew; else only what lies over them has changed.
  function draw(isNew) {
    const chosen = trace.attention.length ? asking.layerOf(trace) : null;
    for (const { drawn, thumb, layer, head } of thumbs) {
      if (isNew || !trace.input.grid) drawn.picture.renew();
      if (isNew || trace.input.grid) drawn.redraw();
      const query = asking.queryOf(trace, layer());
      if (!trace.input.grid) drawn.mark(query < trace.tensors[`${layer().name}.pattern`].shape[1] ? [{ row: query }] : []);
      thumb.classList.toggle("chosen", layer() === chosen && head === asking.headIn(chosen));
    }
  }

  return {
    element,
    show(to) {
      trace = to;
      const shape = JSON.stringify([trace.input.kind, trace.input.grid, trace.attention.map(({ name, heads }) => [name, heads])]);
      if (shape !== built) { built = shape; build(); }
      draw(true);
    },
    redraw: (isNew) => trace && draw(isNew),
  };
}
