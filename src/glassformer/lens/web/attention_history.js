// A film of one test sample: how the attention of a run became what it is, a picture for each look at its weights.
import { h } from "./dom.js";
import { patternPicture, sharesOf } from "./attention.js";
import { livePicture } from "./live_picture.js";
import { runColumn } from "./run_column.js";
import { openTrace } from "./data.js";
import { figure } from "./figure.js";
import { imagePicture } from "./image.js";

export function openHistory(asking) {
  const looks = []; // { epoch, view, frame, drawn }, by epoch
  let at = -1; // the one that is shown; the last unless the reader went elsewhere
  let isFollowing = true;
  const large = runColumn(asking);
  const strip = h("div", { class: "strip-of-film", role: "group", "aria-label": "Epochs" });
  const slider = h("input", { type: "range", min: 0, max: 0, step: 1, value: 0, "aria-label": "Epoch that is looked at", oninput: () => go(Number(slider.value)) });
  const epoch = h("output", { class: "epoch" });
  const name = h("h3");
  const bar = h("div", { class: "film-bar" }, slider, epoch);
  const element = h("section", { class: "film" }, name, bar, strip, asking.element, large.element);
  element.hidden = true;

  function go(to) {
    at = Math.min(Math.max(to, 0), looks.length - 1);
    isFollowing = at === looks.length - 1;
    show();
  }

  function show() {
    const isFilm = looks.length > 1;
    name.textContent = isFilm ? "The first test sample, epoch after epoch" : `The first test sample, after epoch ${looks[at].epoch}`;
    bar.hidden = strip.hidden = !isFilm;
    slider.max = looks.length - 1;
    slider.value = at;
    const look = looks[at];
    epoch.textContent = `epoch ${look.epoch}`;
    slider.setAttribute("aria-valuetext", epoch.textContent);
    looks.forEach(({ frame }, i) => {
      frame.classList.toggle("chosen", i === at);
      frame.setAttribute("aria-pressed", i === at);
    });
    strip.scrollLeft = look.frame.offsetLeft - strip.clientWidth / 2;
    const trace = openTrace(look.view);
    asking.offer(trace);
    large.show(look.view);
  }

  // The frame of one look, drawn with what is asked now.
  function framed(look) {
    const trace = openTrace(look.view);
    const layer = () => asking.layerOf(trace);
    const picture = livePicture(`Epoch ${look.epoch}`, () => {
      if (trace.input.kind !== "image" && layer()) return patternPicture(trace, layer(), asking.headIn(layer()), asking.settings());
      const shares = () => (layer() ? sharesOf(trace, layer(), asking.headIn(layer()), asking.queryOf(trace, layer()), asking.settings()) : null);
      return imagePicture({ title: "", input: trace.input, grid: false, shares, query: () => asking.queryOf(trace, layer()) });
    });
    const drawn = figure(picture, { tools: false, plain: true });
    const frame = h("button", { type: "button", class: "frame", "aria-label": `epoch ${look.epoch}`, onclick: () => go(looks.indexOf(look)) }, drawn.element, h("span", {}, String(look.epoch)));
    return Object.assign(look, { frame, drawn });
  }

  return {
    element,
    // Another run: nothing is known of it yet.
    clear(run) {
      looks.length = 0;
      at = -1;
      isFollowing = true;
      strip.replaceChildren();
      element.hidden = true;
      large.call(run);
    },
    add({ epoch: when, view }) {
      if (view.error) return;
      const same = looks.findIndex((look) => look.epoch === when);
      const look = framed({ epoch: when, view });
      if (same >= 0) looks.splice(same, 1, look);
      else looks.push(look);
      looks.sort((a, b) => a.epoch - b.epoch);
      strip.replaceChildren(...looks.map(({ frame }) => frame));
      element.hidden = false;
      if (isFollowing || at < 0) at = looks.length - 1;
      show();
    },
    redraw(isNew) {
      for (const { drawn } of looks) {
        if (isNew) drawn.picture.renew();
        drawn.redraw();
      }
      large.redraw(isNew);
    },
    count: () => looks.length,
  };
}
