// Everything that was said, by words: the newest first, each hit with the words around it.
import { html, useEffect, useRef, useState, useKeys, useLoaded, link, Damaged, Failed, Loading, counted, moment } from "./ui.js";
import { get } from "./api.js";

const KINDS = { "": "everything", user: "users", assistant: "answers", reasoning: "reasoning", call: "calls", result: "results" };

export function Search({ query }) {
  const asked = Object.fromEntries(["q", "session", "scope", "kind", "order"].map((name) => [name, query.get(name) ?? ""]));
  const { q: words, ...filters } = asked;
  const [pages, setPages] = useState(null);
  const [error, setError] = useState(null);
  const rows = useRef(null);
  const { value: titled } = useLoaded((signal) => (words && !filters.session ? get("sessions", { text: words, limit: 5 }, signal) : Promise.resolve(null)), [words]);
  const load = (cursor, signal) => get("search", { words, ...filters, scope: filters.scope || null, cursor }, signal);
  useEffect(() => {
    const control = new AbortController();
    setPages(null);
    setError(null);
    if (words) load(null, control.signal).then((page) => setPages([page]), (failure) => failure.name !== "AbortError" && setError(failure));
    return () => control.abort();
  }, [query.toString()]);
  const step = (by) => () => {
    const links = [...(rows.current?.querySelectorAll("a.row") ?? [])];
    const at = links.indexOf(document.activeElement);
    links[Math.max(0, Math.min(links.length - 1, at < 0 ? 0 : at + by))]?.focus();
  };
  useKeys({ j: step(1), k: step(-1) });
  const to = (changed) => "#/search?" + new URLSearchParams(Object.entries({ ...asked, ...changed }).filter(([, value]) => value));
  const hits = (pages || []).flatMap((page) => page.hits);
  const last = pages?.[pages.length - 1];
  return html`
    <main id="main" class="list" tabindex="-1">
      <div class="list-head">
        <h1>Search: <bdi>${words}</bdi></h1>
        <div class="filters" role="group" aria-label="Filters">
          <select aria-label="What is searched" onChange=${(event) => (location.hash = to({ kind: event.target.value }))}>${Object.entries(KINDS).map(([kind, label]) => html`<option value=${kind} selected=${kind === filters.kind}>${label}</option>`)}</select>
          <div class="switch">${[["", "Newest"], ["ranked", "Best"]].map(([order, label]) => html`<a href=${to({ order })} aria-current=${order === filters.order ? "true" : null}>${label}</a>`)}</div>
          ${filters.session && html`<a class="chip" href=${to({ session: "" })} title="Search all sessions">in ${filters.session} ✕</a>`}
        </div>
      </div>
      <${Failed} error=${error} />
      ${words && !pages && !error ? html`<${Loading} what="Searching" />` : null}
      ${last?.behind ? html`<p class="dim" role="status">The index is not up to date yet. Search again in a moment.</p>` : null}
      <${Damaged} sessions=${last?.damaged} lack="not searched" />
      <div ref=${rows}>
        ${titled?.sessions.length > 0 && html`<h2>By title</h2><ol class="rows">${titled.sessions.slice(0, 5).map((info) => html`<li><a class="row hit" href=${link("s", info.id)}><b><bdi>${info.title}</bdi></b> <span class="dim small">${moment(info.updated)}</span></a></li>`)}</ol>`}
        ${pages && html`<div role="status"><h2>${hits.length ? `What was said: ${counted(hits.length, "hit")}${last.next ? " so far" : ""}` : "Nothing that was said has these words"}</h2></div>`}
        <ol class="rows">${hits.map((hit) => html`<li><${Hit} hit=${hit} /></li>`)}</ol>
      </div>
      ${last?.next ? html`<button class="wide" onClick=${() => load(last.next).then((page) => setPages([...pages, page]), setError)}>More hits</button>` : null}
    </main>
  `;
}

const Hit = ({ hit }) => html`
  <a class="row hit" href=${link("s", hit.session) + `?v=${hit.version}`}>
    <span class="row-facts"><span class="chip">${hit.kind}${hit.tool && ` ${hit.tool}`}</span>${hit.marks.map((mark) => html`<span class="tag why">${mark}</span>`)}<b><bdi>${hit.title || hit.session}</bdi></b><span class="grow"></span><span class="dim">${moment(hit.time)}</span></span>
    <span class="snippet" dir=${["call", "result"].includes(hit.kind) ? "ltr" : "auto"}>${hit.before && "…"}${hit.pieces.map(([text, found]) => (found ? html`<mark>${text}</mark>` : text))}${hit.after && "…"}</span>
  </a>
`;
