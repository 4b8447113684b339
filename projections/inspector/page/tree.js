// The tree of forks and sub-sessions, each with the time that it covers.
import { html, useEffect, useRef, useState, useKeys, useLoaded, Failed, Loading, compact, count, counted, Cost, Costs, State, duration, link, moment } from "./ui.js";
import { get } from "./api.js";

/** How long a session took; when an imported one ended, for some recordings have no times. */
const covered = ({ created, updated, origin }) => (!origin && updated > created ? `, took ${duration(updated - created)}` : moment(updated) !== moment(created) ? ` to ${moment(updated)}` : "");

export function Tree({ id }) {
  const [again, setAgain] = useState(0);
  const { value, error } = useLoaded((signal) => get("tree", { session: id }, signal), [id, again]);
  useEffect(() => void (value?.estimating && setAgain(again + 1)), [value]);
  const list = useRef(null);
  const focus = (by) => () => {
    const links = [...(list.current?.querySelectorAll("a") ?? [])];
    const at = links.indexOf(document.activeElement);
    links[Math.max(0, Math.min(links.length - 1, at < 0 ? 0 : at + by))]?.focus();
  };
  useKeys({ j: focus(1), k: focus(-1) });
  if (!value) return html`<main id="main" class="tree" tabindex="-1"><${Failed} error=${error} />${!error && html`<${Loading} />`}</main>`;
  const children = new Map();
  const known = new Set(value.sessions.map((info) => info.id));
  const roots = [];
  for (const info of value.sessions) {
    const origin = [info.fork_of, info.parent].find((name) => name && known.has(name));
    if (origin) children.set(origin, [...(children.get(origin) || []), info]);
    else roots.push(info);
  }
  const from = Math.min(...value.sessions.map((info) => info.created));
  const span = Math.max(1, Math.max(...value.sessions.map((info) => info.updated)) - from);
  const draw = (info) => html`
    <li>
      <a class="node" href=${link("s", info.id)} aria-current=${info.id === value.of ? "true" : null}>
        <span class="node-title"><span class=${`tag ${info.fork_of ? "fork" : info.parent ? "sub" : ""}`}>${info.fork_of ? `fork at v${count(info.forked_at)}` : info.parent ? "sub-session" : "session"}</span> <b><bdi>${info.title || info.id}</bdi></b> <${State} state=${info.state} /></span>
        <span class="dim small">${counted(info.messages, "message")} · ${counted(info.events, "event")}${info.calls ? ` · ${compact(info.tokens)} tokens` : ""}${info.calls || info.together?.calls ? html` · <${Costs} info=${info} />` : ""} · ${moment(info.created)}${covered(info)}</span>
        <span class="life" aria-hidden="true"><span style=${{ marginLeft: `${(100 * (info.created - from)) / span}%`, width: `${Math.max(1, (100 * (info.updated - info.created)) / span)}%` }}></span></span>
      </a>
      ${children.has(info.id) && html`<ul>${children.get(info.id).map(draw)}</ul>`}
    </li>
  `;
  return html`
    <main id="main" class="tree" tabindex="-1">
      <h2>${counted(value.sessions.length, "session")} in the tree${value.cost.calls ? html`, <${Cost} ...${value.cost} /> in all` : ""}</h2>
      <ul ref=${list}>${roots.map(draw)}</ul>
    </main>
  `;
}
