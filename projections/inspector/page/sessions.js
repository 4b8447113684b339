// The list of sessions: scopes, states, titles; it follows the store while it is open.
import { html, useEffect, useRef, useState, useKeys, link, State, Failed, Loading, compact, count, Cost, ago, useLoaded } from "./ui.js";
import { get, getChanged } from "./api.js";

const EVERY = 2000;
const ENOUGH = 50; // sessions of a state that are looked for unasked
const STATES = [["", "All"], ["running", "Running"], ["unfinished", "Unfinished"]];

export function Sessions({ query }) {
  const scope = query.get("scope");
  const state = query.get("state") || "";
  const archived = query.get("archived") || "no";
  const [text, setText] = useState("");
  const [list, setList] = useState(null);
  const [error, setError] = useState(null);
  const [more, setMore] = useState([]);
  const { value: scopes } = useLoaded((signal) => get("scopes", {}, signal), []);
  const rows = useRef(null);
  const asking = useRef(null);
  const asked = { scope, state, text, archived: archived === "all" ? null : archived };

  useEffect(() => {
    const control = (asking.current = new AbortController());
    const memory = {};
    let timer;
    setMore([]);
    if (!text) setList(null);
    let estimates = null; // asked for once there are rows
    const load = async () => {
      let wait = EVERY;
      if (!document.hidden) {
        try {
          const found = await getChanged("sessions", { ...asked, estimates }, memory, control.signal);
          if (found) setList(found);
          if (found?.estimating) [estimates, memory.etag, wait] = [1, null, 0];
          setError(null);
        } catch (failure) {
          if (failure.name !== "AbortError") setError(failure);
        }
      }
      if (!control.signal.aborted) timer = setTimeout(load, wait);
    };
    timer = setTimeout(load, text ? 150 : 0);
    return () => (control.abort(), clearTimeout(timer));
  }, [scope, state, text, archived]);

  const pages = [list, ...more].filter(Boolean);
  const next = pages[pages.length - 1]?.next;
  const loadMore = async () => {
    const cursor = next;
    try {
      for (let page = { estimating: true }; page.estimating; ) {
        page = await get("sessions", { ...asked, cursor, estimates: 1 }, asking.current.signal);
        setMore((known) => [...known.filter((each) => each.cursor !== cursor), { ...page, cursor }]);
      }
    } catch (failure) {
      if (failure.name !== "AbortError") setError(failure);
    }
  };
  const seen = new Set();
  const sessions = pages.flatMap((page) => page.sessions).filter((info) => !seen.has(info.id) && seen.add(info.id));
  const looking = state && next && sessions.length < ENOUGH;
  useEffect(() => void (looking && loadMore()), [looking, next]);
  const step = (by) => () => {
    const links = [...(rows.current?.querySelectorAll("a.row") ?? [])];
    const at = links.indexOf(document.activeElement);
    links[Math.max(0, Math.min(links.length - 1, at < 0 ? 0 : at + by))]?.focus();
  };
  useKeys({ j: step(1), k: step(-1) });
  const to = (changed) => {
    const given = new URLSearchParams(Object.entries({ scope, state, archived: archived === "no" ? "" : archived, ...changed }).filter(([, value]) => value !== null && value !== ""));
    if (changed.scope === "") given.set("scope", "");
    return `#/?${given}`;
  };
  return html`
    <main id="main" class="list" tabindex="-1">
      <div class="list-head">
        <h1>Sessions</h1>
        <div class="filters" role="group" aria-label="Filters">
          <div class="switch">${STATES.map(([name, label]) => html`<a href=${to({ state: name })} aria-current=${name === state ? "true" : null}>${label}</a>`)}</div>
          <input type="search" aria-label="Only with this text in the title" placeholder="Title contains" value=${text} onInput=${(event) => setText(event.target.value)} />
          <select aria-label="Scope" onChange=${(event) => (location.hash = to({ scope: event.target.value === "*" ? null : event.target.value }))}>
            <option value="*" selected=${scope === null}>all scopes</option>
            ${scopes?.scopes.map((each) => html`<option value=${each.scope} selected=${scope === each.scope}>${each.shown || "without a scope"} (${count(each.sessions)})</option>`)}
          </select>
          <label class="check"><input type="checkbox" checked=${archived === "all"} onChange=${(event) => (location.hash = to({ archived: event.target.checked ? "all" : "no" }))} /> archived</label>
        </div>
      </div>
      <${Failed} error=${error} />
      ${list === null && !error ? html`<${Loading} />` : null}
      ${looking ? html`<p class="dim" role="status">Looking for ${state} sessions: ${count(pages.reduce((sum, page) => sum + page.looked, 0))} looked at so far …</p>` : null}
      ${list && !looking && !sessions.length ? html`<div class="empty"><p>No session here.</p><p class="dim">${text || state || scope !== null ? "Change the filters above." : html`Import some: <code>eventlog import FILE</code>, or see <code>eventlog demo</code>.`}</p></div>` : null}
      <ol class="rows" ref=${rows} aria-label="Sessions">
        ${sessions.map((info) => html`<${Row} key=${info.id} info=${info} waiting=${info.unpriced > 0 && pages.some((page) => page.estimating)} />`)}
      </ol>
      ${next && !looking ? html`<button class="wide" onClick=${loadMore}>More sessions</button>` : null}
    </main>
  `;
}

function Row({ info, waiting }) {
  const marks = [info.forkOf && "fork", info.parent && "sub-session", info.archived && "archived", info.locked && "no key", info.origin].filter(Boolean);
  return html`
    <li>
      <a class="row" href=${link("s", info.id)}>
        <span class="row-title"><bdi>${info.title || info.id}</bdi><${State} state=${info.state} /></span>
        <span class="row-facts">
          ${info.scope && html`<span class="chip"><bdi>${info.scope}</bdi></span>`}
          ${marks.map((mark) => html`<span class="chip plain">${mark}</span>`)}
          ${info.note && html`<span class="dim"><bdi>${info.note}</bdi></span>`}
          <span class="mono dim id">${info.id}</span>
        </span>
        <span class="num"><b>${compact(info.messages)}</b><small>messages</small></span>
        <span class="num"><b>${compact(info.events)}</b><small>events</small></span>
        <span class="num"><b>${info.calls ? compact(info.tokens) : "–"}</b><small>tokens</small></span>
        <span class="num"><b><${Cost} ...${info} waiting=${waiting} /></b><small>cost</small></span>
        <span class="when dim">${ago(info.updated)}</span>
      </a>
    </li>
  `;
}
