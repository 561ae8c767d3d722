// The studio: draw or write, and see what one run or two make of it, as it is drawn; and runs, as they are trained.
import { choices, h } from "./dom.js";
import { ask } from "./api.js";
import { openBanner } from "./banner.js";
import { reads, runSelect } from "./run_select.js";
import { fullTraceTab } from "./full_trace.js";
import { redrawAll, theme } from "./figure.js";
import { listen } from "./shortcuts.js";
import { liveTab } from "./live_view.js";
import { remember, remembered } from "./session_storage.js";
import { watchTab } from "./watch.js";

const LOOK_AGAIN = 3000; // milliseconds between two looks at the list of runs
const KEYS = [["z", "undo"], ["c", "clear"], ["e", "eraser"], ["[ ]", "samples"], ["r", "random"], ["b", "backward"]];
const TABS = [["look", "Look", "the input, the answer, the attention"], ["every", "Every number", "the whole trace, forward and backward"], ["watch", "Watch", "runs, as they are trained"]];

export function openStudio(root) {
  const chosen = remembered({ run: "", compare: "", tab: "look", watched: "" });
  let runs = [];
  let shown = ""; // tab, runs and their epochs, as they were last drawn
  let open = ""; // the tab
  const runOf = (name) => runs.find((one) => one.name === name);

  const banner = openBanner();
  const look = liveTab({ banner, onChange: changed });
  const every = fullTraceTab((error) => banner.takes(error));
  const watch = watchTab({ onChoose: (name) => choose({ watched: name }) });
  const { source, asking } = look;
  const rooms = { look: look.element, every: every.element, watch: watch.element };
  const choosers = runSelect(choose);
  const tabs = choices("View", TABS, chosen.tab, (tab) => choose({ tab }));
  const turnTheme = () => {
    document.documentElement.dataset.theme = theme() === "dark" ? "light" : "dark";
    redrawAll();
  };
  const studio = h("div", { class: "studio" },
    h("header", { class: "studio-top" }, h("h1", {}, "glassformer ", h("span", {}, "studio")), choosers.element,
      h("div", { class: "studio-tabs" }, tabs, h("button", { type: "button", class: "icon", title: "Light or dark (t)", "aria-label": "Light or dark", onclick: turnTheme }, "◐"))),
    banner.element,
    h("main", {}, Object.values(rooms)), // all three stay in the page: a picture that leaves it is forgotten
    h("div", { class: "studio-foot", role: "contentinfo" }, look.stopwatch.element,
      h("span", { class: "keys-line" }, KEYS.map(([key, what]) => h("span", { "data-key": key }, h("kbd", {}, key), ` ${what}`)))));
  root.replaceChildren(studio);

  // The input is another, or who looks at it.
  function changed(since = null) {
    if (chosen.tab === "look") look.look(since);
    else every.want(() => ({ run: chosen.run, input: source.named(), missing: source.now().missing() }));
  }

  function choose(changes) {
    const goes = Object.entries(changes).some(([key, value]) => chosen[key] !== value);
    Object.assign(chosen, changes);
    if ((runOf(chosen.run)?.state ?? "broken") === "broken") chosen.run = runs.find((run) => run.state !== "broken").name;
    const partner = runOf(chosen.compare);
    if (!partner || partner.name === chosen.run || reads(partner) !== reads(runOf(chosen.run))) chosen.compare = "";
    if (!runOf(chosen.watched)) chosen.watched = (runs.find((run) => run.state === "training") ?? runOf(chosen.run)).name;
    remember(chosen);
    if (JSON.stringify(history.state?.studio) !== JSON.stringify(chosen)) history[goes ? "pushState" : "replaceState"]({ studio: { ...chosen } }, "");
    draw();
  }

  function draw() {
    const both = [chosen.run, chosen.compare].filter(Boolean).map(runOf);
    choosers.offer(runs, chosen);
    look.call(both);
    const isComing = source.open(both[0]);
    if (open !== chosen.tab) openTab();
    if (chosen.tab === "watch") {
      watch.open(runOf(chosen.watched));
      watch.list(runs);
    }
    const now = JSON.stringify([chosen.tab, both.map((run) => [run.name, run.epochs])]); // a run that trains is asked again
    if (now !== shown && !isComing) changed();
    shown = now;
  }

  function openTab() {
    open = chosen.tab;
    tabs.choose(open);
    studio.dataset.tab = open;
    for (const [name, room] of Object.entries(rooms)) room.hidden = name !== open;
    if (open === "every") every.open(source.room);
    else every.close();
    if (open === "look") look.open();
    if (open !== "watch") watch.close();
    window.scrollTo({ top: 0 });
  }

  async function lookForRuns() {
    try {
      const told = await ask("runs");
      if (!runs.length && !told.runs.some((run) => run.name === chosen.run)) chosen.run = told.start;
      runs = told.runs;
      if (banner.clear()) shown = "";
      choose({});
    } catch (error) {
      if (!banner.takes(error)) banner.say(error.message);
    }
    setTimeout(lookForRuns, LOOK_AGAIN);
  }

  const inLook = (action) => () => { if (chosen.tab !== "watch") action(); };
  const asked = () => (chosen.tab === "watch" ? watch.asking : asking);
  const notEvery = (action) => () => { if (chosen.tab !== "every") action(); }; // there, the page has keys of its own
  listen({
    z: inLook(() => source.now().undo()), c: inLook(() => source.now().clear()), e: inLook(() => source.now().erase()),
    "[": inLook(() => source.bar.next(-1)), "]": inLook(() => source.bar.next(1)), r: inLook(() => source.bar.any()),
    b: notEvery(() => asked().set({ mode: asked().settings().mode === "forward" ? "backward" : "forward" })),
    ",": notEvery(() => asked().turn(-1)), ".": notEvery(() => asked().turn(1)), t: notEvery(turnTheme),
    head: (head) => notEvery(() => asked().set({ head }))(),
  });
  window.addEventListener("popstate", ({ state }) => { // Back, and forward again
    if (!state?.studio || !runs.length) return;
    Object.assign(chosen, state.studio);
    choose({});
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);

  lookForRuns();
  return { times: look.stopwatch.times, chosen, columns: look.columns, asking, every, source: source.now, runs: () => runs, choose };
}

const root = document.getElementById("studio");
if (root) window.studio = openStudio(root);
