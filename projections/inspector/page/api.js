// What the page asks its server for. Answers with an error become an Error with the server's sentence.

const NAMED = ["scope", "model"]; // "" is one without a name

/** Get JSON: `get("messages", {session: id, before: 12})`; null, undefined and "" are left out. */
export async function get(name, query = {}, signal) {
  const answer = await fetch(address(name, query), { signal, headers: { accept: "application/json" } });
  return read(answer);
}

/** Get JSON unless it is the same as last time; then null. `memory` is an object that keeps the mark. */
export async function getChanged(name, query, memory, signal) {
  const headers = memory.etag ? { "if-none-match": memory.etag } : {};
  const answer = await fetch(address(name, query), { signal, headers, cache: "no-store" });
  if (answer.status === 304) return null;
  const found = await read(answer);
  memory.etag = answer.headers.get("etag");
  return found;
}

/** Post an object of texts as JSON: what changes something. */
export async function post(name, body) {
  return read(await fetch(address(name), { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) }));
}

export function address(name, query = {}) {
  const given = Object.entries(query).filter(([name, value]) => value !== null && value !== undefined && (value !== "" || NAMED.includes(name)));
  const text = new URLSearchParams(given).toString();
  return `api/${name}${text ? `?${text}` : ""}`;
}

async function read(answer) {
  if ((answer.headers.get("content-type") || "").startsWith("application/json")) {
    const found = await answer.json();
    if (answer.ok) return found;
    throw new Error(found.error || `the server answered ${answer.status}`);
  }
  throw new Error((await answer.text()).slice(0, 200) || `the server answered ${answer.status}`);
}
