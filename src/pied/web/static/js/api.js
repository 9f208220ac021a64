// Requests to the server; a refusal becomes an Error with the server's own words.

export class Refusal extends Error {
  constructor(status, data) { super(data.error || `the server answered ${status}`); this.status = status; this.data = data; }
}

async function answered(promise) {
  let answer;
  try { answer = await promise; } catch { throw new Refusal(0, { error: "The server does not answer: is it still running? Nothing typed is lost; try again." }); }
  const data = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refusal(answer.status, data);
  return data;
}

export function get(path) { return answered(fetch(path, { credentials: "same-origin" })); }

export function post(path, body = {}) {
  return answered(fetch(path, { method: "POST", credentials: "same-origin", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }));
}

export function upload(path, file) {
  return answered(fetch(path, { method: "POST", credentials: "same-origin", headers: { "Content-Type": "application/octet-stream" }, body: file }));
}

export function worker() { return localStorage.getItem("pied-name") || ""; }
export function setWorker(name) { localStorage.setItem("pied-name", name); }
export const at = (study, rest = "") => `/api/studies/${encodeURIComponent(study)}${rest}`;
