// Across the page, when there is no server any more that would answer it.
import { h } from "./dom.js";
import { Gone } from "./api.js";

const UNKNOWN = 401; // the token is that of an earlier server

export function openBanner() {
  const element = h("p", { class: "banner", role: "alert", hidden: true });
  const self = {
    element,
    say(words) {
      element.textContent = words;
      element.hidden = false;
    },
    // Whether that is what the error says.
    takes(error) {
      if (error instanceof Gone) self.say("The studio has stopped. Start it again with “glassformer studio”; this page looks for it every few seconds.");
      else if (error.status === UNKNOWN) self.say("This address is no longer valid: open the one that “glassformer studio” printed.");
      else return false;
      return true;
    },
    // An answer came. Whether none had come before.
    clear() {
      const was = !element.hidden;
      element.hidden = true;
      return was;
    },
  };
  return self;
}
