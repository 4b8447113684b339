// The list of sessions: scopes, states, titles; it follows the store while it is open.
import { html, useEffect, useRef, useState, useKeys, link, State, Failed, Loading, compact, count, counted, Cost, ago, useLoaded } from "./ui.js";
import { get, getChanged } from "./api.js";

const EVERY = 2000;
const ENOUGH = 50; // sessions of a state that are looked for unasked
const STATES = [["", "All"], ["running", "Running"], ["unfinished", "Unfinished"], ["asked", "Asked"]];

const SORTS = { "": "latest first", created: "newest first", cost: "highest own cost first", tokens: "most tokens first", messages: "longest first" };
const FIELDS = ["scope", "state", "archived", "text", "sort", "since", "until", "cost", "model", "subsessions"]; // of the address

/** The beginning of a day of the address, or of the day after it, as the server wants it. */
const dayOf = (text, plus = 0) => {
  const date = new Date(`${text}T00:00`);
  return text && !Number.isNaN(date.getTime()) ? date.setDate(date.getDate() + plus) : null;
};

export function Sessions({ query }) {
  const given = Object.fromEntries(FIELDS.map((name) => [name, query.get(name)]));
  const { scope, sort } = given;
  const [state, text, archived] = [given.state || "", given.text || "", given.archived || "no"];
  const unfolded = given.subsessions === "all" || state || text || given.model; // a sub-session that is looked for is shown
  const [list, setList] = useState(null);
  const [error, setError] = useState(null);
  const [more, setMore] = useState([]);
  const { value: scopes } = useLoaded((signal) => get("scopes", {}, signal), []);
  const [choosing, setChoosing] = useState(Boolean(given.model)); // models are looked for once they are needed
  const { value: models } = useLoaded((signal) => (choosing ? get("usage", {}, signal) : Promise.resolve(null)), [choosing]);
  const rows = useRef(null);
  const asking = useRef(null);
  const asked = { scope, state, text, sort, archived: archived === "all" ? null : archived, subsessions: unfolded ? null : "no", since: dayOf(given.since), until: dayOf(given.until, 1), cost: given.cost, model: given.model || null };
  const key = JSON.stringify(asked);

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
    timer = setTimeout(load, 0);
    return () => (control.abort(), clearTimeout(timer));
  }, [key]);

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
    const all = Object.entries({ ...given, ...changed });
    return `#/?${new URLSearchParams(all.filter(([name, value]) => value !== null && (value !== "" || name === "scope")))}`;
  };
  const go = (name) => (event) => (location.hash = to({ [name]: event.target.value }));
  const typing = useRef(null);
  useEffect(() => () => clearTimeout(typing.current), []);
  const typed = (event) => {
    const { value } = event.target;
    clearTimeout(typing.current);
    typing.current = setTimeout(() => location.replace(to({ text: value })), 150);
  };
  const narrowed = given.since || given.until || given.cost || given.model || given.subsessions || archived === "all";
  return html`
    <main id="main" class="list" tabindex="-1">
      <div class="list-head">
        <h1>Sessions</h1>
        <div class="filters" role="group" aria-label="Filters">
          <div class="switch">${STATES.map(([name, label]) => html`<a href=${to({ state: name })} aria-current=${name === state ? "true" : null}>${label}</a>`)}</div>
          <input type="search" aria-label="Only with this text in the title" placeholder="Title contains" value=${text} onInput=${typed} />
          <select aria-label="Scope" onChange=${(event) => (location.hash = to({ scope: event.target.value === "*" ? null : event.target.value }))}>
            <option value="*" selected=${scope === null}>all scopes</option>
            ${scopes?.scopes.map((each) => html`<option value=${each.scope} selected=${scope === each.scope}>${each.shown || "without a scope"} (${count(each.sessions)})</option>`)}
          </select>
          <select aria-label="Order" onChange=${go("sort")}>${Object.entries(SORTS).map(([name, label]) => html`<option value=${name} selected=${name === (sort || "")}>${label}</option>`)}</select>
        </div>
      </div>
      <details class="more-filters" open=${Boolean(narrowed)} onToggle=${(event) => event.currentTarget.open && setChoosing(true)}><summary>More filters</summary>
        <label>active from <input type="date" value=${given.since || ""} onChange=${go("since")} /></label>
        <label>to <input type="date" value=${given.until || ""} onChange=${go("until")} /></label>
        <label>own cost at least $ <input type="number" min="0" step="any" value=${given.cost || ""} onChange=${go("cost")} /></label>
        <label>model <select aria-label="Model" onChange=${go("model")}>
          <option value="" selected=${!given.model}>any</option>
          ${given.model && !models?.models.some((each) => each.model === given.model) && html`<option value=${given.model} selected>${given.model}</option>`}
          ${models?.models.filter((each) => each.model).map((each) => html`<option value=${each.model} selected=${given.model === each.model}>${each.shown} (${count(each.sessions)})</option>`)}
        </select></label>
        <label class="check"><input type="checkbox" checked=${archived === "all"} onChange=${(event) => (location.hash = to({ archived: event.target.checked ? "all" : "" }))} /> archived</label>
        <label class="check"><input type="checkbox" checked=${given.subsessions === "all"} onChange=${(event) => (location.hash = to({ subsessions: event.target.checked ? "all" : "" }))} /> sub-sessions beside the others</label>
      </details>
      <${Failed} error=${error} />
      ${list === null && !error ? html`<${Loading} />` : null}
      ${looking ? html`<p class="dim" role="status">Looking for ${state} sessions: ${count(pages.reduce((sum, page) => sum + page.looked, 0))} looked at so far …</p>` : null}
      ${list?.unestimated ? html`<p class="dim" role="status">Costs of ${counted(list.unestimated, "session")} are still to be estimated by list prices: the order may change …</p>` : null}
      ${list && !looking && !sessions.length ? html`<div class="empty"><p>No session here.</p><p class="dim">${text || state || narrowed || scope !== null ? "Change the filters above." : html`Import some: <code>eventlog import FILE</code>, or see <code>eventlog demo</code>.`}</p></div>` : null}
      <ol class="rows" ref=${rows} aria-label="Sessions">
        ${sessions.map((info) => html`<${Row} key=${info.id} info=${info} folded=${!unfolded} waiting=${pages.some((page) => page.estimating)} />`)}
      </ol>
      ${next && !looking ? html`<button class="wide" onClick=${loadMore}>More sessions</button>` : null}
    </main>
  `;
}

/** A session, and its sub-sessions folded under it. */
function Row({ info, folded, waiting }) {
  const [open, setOpen] = useState(false);
  const [below, setBelow] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => {
    if (!open) return;
    const control = new AbortController();
    get("sessions", { parent: info.id, sort: "created", limit: 100, estimates: 1 }, control.signal).then(setBelow, (failure) => failure.name !== "AbortError" && setError(failure));
    return () => control.abort();
  }, [open, info.version]);
  const marks = [info.fork_of && "fork", info.parent && "sub-session", info.archived && "archived", info.locked && "no key", info.origin].filter(Boolean);
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
      ${info.subsessions && folded ? html`<details class="below" open=${open} onToggle=${(event) => setOpen(event.currentTarget.open)}>
        <summary>${counted(info.subsessions, "sub-session")}${info.together.calls > 0 && html`, cost with them <${Cost} ...${info.together} waiting=${waiting} />`}</summary>
        <${Failed} error=${error} />
        ${open && (below ? html`<ol class="rows">${below.sessions.map((child) => html`<${Row} key=${child.id} info=${child} folded=${true} />`)}</ol>${below.next ? html`<p class="dim small">The newest 100 are shown.</p>` : null}` : html`<${Loading} />`)}
      </details>` : null}
    </li>
  `;
}
