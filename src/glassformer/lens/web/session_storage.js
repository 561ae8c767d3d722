// What was chosen outlives a reload of the page, not the tab.

const KEY = "studio";

export function remembered(plain) {
  try {
    return { ...plain, ...JSON.parse(sessionStorage.getItem(KEY) ?? "{}") };
  } catch {
    return plain;
  }
}

export function remember(chosen) {
  try {
    sessionStorage.setItem(KEY, JSON.stringify(chosen));
  } catch {
    // without storage a reload begins anew
  }
}
