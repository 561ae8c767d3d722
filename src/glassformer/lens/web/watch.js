// A run as it is trained: curves, and the film of one sample, as the server tells of them.
import { h, number } from "./dom.js";
import { addressOf } from "./api.js";
import { livePicture } from "./live_picture.js";
import { curvesPicture } from "./curves.js";
import { figure } from "./figure.js";
import { openHistory } from "./attention_history.js";
import { openSelection } from "./selection.js";

const AGAIN = 2000; // milliseconds before a stream that was refused is opened again
const WORDS = { training: "training", finished: "finished", stopped: "stopped", broken: "cannot be read" };
const LOSSES = [["training", (row) => row.loss], ["validation", (row) => row.val_loss], ["test", (row) => row.test_loss]];
const SCORES = [["validation", (row) => row.val_accuracy], ["test", (row) => row.test_accuracy]];

export function stateMark(state) {
  return h("span", { class: `state ${state}` }, WORDS[state] ?? state);
}

export function watchTab({ onChoose }) {
  const asking = openSelection((isNew) => film.redraw(isNew));
  const film = openHistory(asking);
  const list = h("ul", { class: "run-list" });
  const title = h("h2");
  const line = h("p", { class: "about" });
  const cut = h("p", { class: "refusal", role: "status", hidden: true });
  let rows = [];
  let of = 0;
  let state = "";
  let shown = null; // the run
  let stream = null;
  let timer = 0;

  const named = (all) => all.map(([name, at]) => ({ name, at }));
  const loss = figure(livePicture("Loss", () => curvesPicture({ title: "", rows, of, lines: named(LOSSES) })), { tools: "apart", onPoint: read });
  const scores = figure(livePicture("Accuracy", () => curvesPicture({ title: "", rows, of, lines: [["", () => null], ...SCORES].map(([name, at]) => ({ name, at })), share: true })), { tools: "apart", onPoint: read });
  const reading = h("p", { class: "reading", role: "status" });
  const curves = h("div", { class: "curves" },
    h("section", { class: "curve" }, h("h3", {}, "Loss, nats", loss.tools), loss.element),
    h("section", { class: "curve" }, h("h3", {}, "Accuracy", scores.tools), scores.element));
  const none = h("p", { class: "about" });
  const body = h("div", { class: "watched" }, h("header", {}, title, line), cut, none, curves, reading, film.element);
  const element = h("div", { class: "watch" }, h("nav", { "aria-label": "Runs" }, h("h3", {}, "Runs"), list), body);

  // The numbers of the epoch that is pointed at; of the last one while none is.
  function read(cell) {
    const row = cell ? rows[cell.row] : rows.at(-1);
    if (!row) return reading.replaceChildren();
    const share = (value) => `${(100 * value).toFixed(2)} %`;
    const parts = [["epoch", row.epoch, String], ...LOSSES.map(([name, at]) => [`${name} loss`, at(row), (value) => number(value, 4)]), ...SCORES.map(([name, at]) => [`${name} accuracy`, at(row), share]), ["seconds", row.time, (value) => number(value, 3)]];
    reading.replaceChildren(...parts.filter(([, value]) => value != null).map(([name, value, write]) => h("span", {}, `${name} `, h("strong", { "data-value": value }, write(value)))));
  }

  function draw() {
    for (const one of [loss, scores]) {
      one.picture.renew();
      one.redraw();
    }
    read(null);
    curves.hidden = !rows.length;
    scores.element.parentElement.hidden = !rows.some((row) => SCORES.some(([, at]) => at(row) != null));
    none.hidden = Boolean(rows.length);
    none.replaceChildren(...(shown?.name === "-" ? ["These weights come with glassformer; how they were trained is not kept. Train your own with ", h("code", {}, "glassformer train"), " and watch it here."]
      : [state === "training" ? "The first epoch is under way: curves begin when it is done." : "No epoch was finished."]));
    const made = shown ? [shown.model, shown.data].filter(Boolean).join(" on ") : "";
    line.replaceChildren(stateMark(state), [rows.length ? `${rows.at(-1).epoch} of ${of} epochs` : "", made].filter(Boolean).join(" · "));
  }

  function listen() {
    hush();
    stream = new EventSource(addressOf("watch", { run: shown.name }));
    const on = (kind, action) => stream.addEventListener(kind, (event) => {
      cut.hidden = true;
      action(JSON.parse(event.data));
    });
    on("progress", (told) => {
      ({ state, of } = told);
      rows = told.epochs;
      draw();
    });
    on("epoch", (row) => {
      rows = [...rows.filter((one) => one.epoch < row.epoch), row];
      draw();
    });
    on("look", (look) => film.add(look));
    on("end", (told) => {
      state = told.state;
      draw();
      hush();
    });
    stream.onerror = () => {
      cut.hidden = false;
      cut.textContent = "The connection was cut; trying again.";
      if (stream?.readyState === EventSource.CLOSED) timer = setTimeout(listen, AGAIN);
    };
  }

  function hush() {
    clearTimeout(timer);
    stream?.close();
    stream = null;
  }

  return {
    element,
    // The runs there are, as the list of them changes.
    list(runs) {
      list.replaceChildren(...runs.map((run) => h("li", {}, h("button", { type: "button", class: "run-button", "aria-current": run.name === shown?.name ? "true" : null, "data-run": run.name, onclick: () => onChoose(run.name) },
        h("span", { class: "run-title" }, run.title),
        h("span", { class: "small", title: run.error }, run.error ?? [run.of ? `${run.epochs} of ${run.of} epochs` : "", run.accuracy == null ? "" : `${(100 * run.accuracy).toFixed(1)} %`].filter(Boolean).join(" · ")), stateMark(run.state)))));
      if (runs.length < 2) list.append(h("li", { class: "small empty" }, "No run of your own yet. Start one in a terminal:", h("code", {}, "glassformer train"), "It appears here by itself."));
    },
    open(run) {
      const isSame = shown?.name === run.name;
      if (isSame && (stream || run.state === state)) return;
      shown = run;
      title.textContent = run.title;
      if (!isSame) {
        rows = [];
        ({ of, state } = run);
        asking.forget();
        film.clear(run);
      }
      cut.hidden = true;
      draw();
      listen();
    },
    close() {
      hush();
      shown = null;
    },
    asking,
  };
}
