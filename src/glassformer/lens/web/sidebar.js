// The side: the input with the attention of one token over it, how attention is looked at, and the answer.
import { h } from "./dom.js";
import { answerView, showPlace } from "./answer.js";
import { inputFigures, strongest, words } from "./attention.js";
import { attentionControls, renewed } from "./controls.js";

// `onAsk()`: another token asks.
export function openSidebar(scene, onAsk, writer = null) {
  const { trace, state } = scene;
  const element = h("aside", { class: "side", "aria-label": "Input and attention" });
  const answer = answerView(trace, state, writer);
  const caption = h("p", { class: "caption" });
  let figures = [];
  let controls = null;

  function draw() {
    const layer = scene.layer();
    figures = inputFigures(trace, layer, {
      head: scene.head, query: scene.query, settings: scene.settings,
      onPoint: (cell) => ask(cell ? cell.token : -1),
      onPick: (cell) => state.set({ token: cell.token }),
    });
    controls = layer ? attentionControls(scene) : null;
    element.replaceChildren(...[inputSection(), controls, answer].filter(Boolean));
    ask(-1);
    requestAnimationFrame(() => requestAnimationFrame(showAsking)); // then it has its size
  }

  function inputSection() {
    const several = figures.length > 1;
    return h("section", { class: "input" },
      h("h2", {}, "Input", several ? null : figures[0]?.tools),
      trace.input.kind === "row" ? h("p", { class: "row" }, trace.input.row.join(", ")) : null,
      figures.map((one) => [
        several ? h("p", { class: "text-name" }, one.picture.title, one.tools) : null,
        h("div", { class: "scroll" }, one.element)]),
      caption);
  }

  // In a long text, the token that asks is brought into sight.
  function showAsking() {
    const room = figures[0]?.element.parentElement;
    const box = room && figures[0].boxOf({ token: scene.pinned() });
    if (box && room.scrollHeight > room.clientHeight) room.scrollTop = box.y - room.clientHeight / 2;
  }

  function ask(token) {
    scene.hover(token);
    tell();
  }

  // After a change of the token that asks.
  function tell() {
    const layer = scene.layer();
    if (layer) caption.replaceChildren(...[words, strongest].map((say) => h("span", {}, say(trace, layer, scene.settings(), scene.query()))));
    else caption.replaceChildren();
    figures.forEach((one) => one.redraw());
    showPlace(answer, trace, layer, scene.query());
    onAsk();
  }

  // After a change of what is looked at.
  function update(changed) {
    if (changed.has("layer")) return draw();
    if (!["head", "mask", "mode", "temperature", "token"].some((key) => changed.has(key))) return;
    if (changed.has("head") || changed.has("mask")) controls = controls && renewed(controls, scene);
    controls?.update();
    ask(-1);
  }

  return { element, draw, ask, tell, update };
}
