// Talking to the studio's server: every question carries the token of the address, every refusal is a sentence.

const TOKEN = new URLSearchParams(location.search).get("token") ?? "";

// The server said no, and why.
export class Refused extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

// Nobody answers.
export class Gone extends Error {}

export async function ask(path, body = null) {
  const headers = { Authorization: `Bearer ${TOKEN}` };
  const request = body ? { method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(body) } : { headers };
  let answer;
  let said = null;
  try {
    answer = await fetch(`/api/${path}`, request);
    said = await answer.json();
  } catch {
    if (!answer || answer.ok) throw new Gone("the studio has stopped");
  }
  if (!answer.ok) throw new Refused(said?.error ?? `the studio answered ${answer.status}`, answer.status);
  return said;
}

// Where events come from; an EventSource cannot send headers.
export function addressOf(path, words) {
  return `/api/${path}?${new URLSearchParams({ ...words, token: TOKEN })}`;
}
