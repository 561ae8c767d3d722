// What the reader has chosen. It lives in the address (#…), so that a link leads to the same view, and Back to the last one.

const PLAIN = {
  tab: "", mode: "forward", part: "", step: "", layer: "", head: 0, group: 0, token: -1, mask: "", temperature: 1, tensor: "", cell: "",
  theme: "", look: "", heads: "", scale: "", heat: 1, top_p: 1, read: 0,
};

const PLACES = ["tab", "mode", "part", "step", "layer", "tensor"]; // whoever goes to another one can go back

// `complete` turns what a link says into a view that exists.
export function openUrlState(signal, complete = (values) => values) {
  const listeners = new Set();
  let values = complete({ ...PLAIN, ...fromHash(location.hash) });

  function set(changes, goes = true) {
    const before = values;
    values = complete({ ...values, ...changes });
    const changed = new Set(Object.keys(values).filter((key) => values[key] !== before[key]));
    if (!changed.size) return;
    remember(goes && PLACES.some((key) => changed.has(key)));
    listeners.forEach((listener) => listener(values, changed));
  }

  function remember(goes) {
    try {
      history[goes ? "pushState" : "replaceState"](history.state, "", toHash(values) || location.pathname + location.search);
    } catch {
      // a page without an address of its own (in a frame) still works, only without links
    }
  }

  window.addEventListener("hashchange", () => set({ ...PLAIN, theme: values.theme, ...fromHash(location.hash) }, false), { signal });
  return { get: () => values, set, onChange: (listener) => listeners.add(listener) };
}

export function toHash(values) {
  const words = new URLSearchParams();
  for (const [key, value] of Object.entries(values)) if (value !== PLAIN[key]) words.set(key, value);
  return words.size ? `#${words}` : "";
}

export function fromHash(hash) {
  const found = {};
  for (const [key, text] of new URLSearchParams(hash.slice(1))) {
    if (!(key in PLAIN)) continue;
    const value = typeof PLAIN[key] === "number" ? Number(text) : text;
    if (typeof value === "string" || Number.isFinite(value)) found[key] = value;
  }
  return found;
}
