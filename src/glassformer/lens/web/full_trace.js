// Every number: the whole page of the first run on this input, made again when the input has changed.
import { h } from "./dom.js";
import { ask } from "./api.js";
import { start } from "./main.js";

const QUIET = 400; // milliseconds without a change before the page is made again

export function fullTraceTab(failed) {
  const room = h("div", { class: "inside" });
  const status = h("p", { class: "small waiting", role: "status" });
  const refusal = h("p", { class: "refusal", role: "alert", hidden: true });
  const source = h("div", { class: "every-source" });
  let page = null;
  let asked = ""; // what the page that is shown, or on its way, answers
  let wanted = null;
  let timer = 0;
  let isOpen = false;

  async function fetchPage() {
    if (!isOpen || !wanted) return;
    const { missing, ...now } = wanted();
    const key = JSON.stringify(now);
    if (missing) return empty(missing);
    if (key === asked) return;
    asked = key;
    status.textContent = page ? "" : "Tracing every number …";
    try {
      const payload = await ask("view", now);
      if (!isOpen || asked !== key) return;
      room.style.minHeight = `${room.offsetHeight}px`; // the page does not jump while its content is replaced
      page?.stop();
      page = start(room, payload, { askServer: (question) => ask("what_if", { ...now, ...question }) });
      requestAnimationFrame(() => { room.style.minHeight = ""; });
      refusal.hidden = true;
    } catch (error) {
      if (asked === key) asked = "";
      if (!failed(error)) {
        refusal.hidden = false;
        refusal.textContent = error.message;
      }
    } finally {
      if (asked) status.textContent = "";
    }
  }

  function empty(words) {
    page?.stop();
    page = null;
    asked = "";
    refusal.hidden = true;
    room.replaceChildren();
    delete document.documentElement.dataset.tab;
    status.textContent = words;
  }

  return {
    element: h("div", { class: "every" }, source, refusal, status, room),
    open(pad) {
      isOpen = true;
      source.replaceChildren(pad);
      fetchPage();
    },
    close() {
      isOpen = false;
      clearTimeout(timer);
      empty("");
    },
    // `question()` gives { run, input }, and what is missing where there is nothing to ask
    want(question) {
      wanted = question;
      clearTimeout(timer);
      timer = setTimeout(fetchPage, page ? QUIET : 0);
    },
    page: () => page,
  };
}
