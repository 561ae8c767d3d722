// From each event of the pointer to when the attention it led to is on the screen.
import { h } from "./dom.js";

const KEPT = 200; // times, the newest

export function openLatency() {
  const times = [];
  const element = h("span", { class: "speed" });
  return {
    element, times,
    // It is drawn; with the next frame it is seen. `since`: when the pointer moved.
    drawn(since) {
      if (!since.length) return;
      requestAnimationFrame(() => setTimeout(() => {
        const now = performance.now();
        times.push(...since.map((then) => now - then));
        times.splice(0, times.length - KEPT);
        const sorted = [...times].sort((a, b) => a - b);
        element.textContent = `${Math.round(sorted[sorted.length >> 1])} ms from stroke to attention`;
      }));
    },
  };
}
