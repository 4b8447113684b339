// A slider over versions: everything that was said up to one, beside what the model saw then.
import { html, useEffect, useMemo, useRef, useState, useKeys, useLoaded, Failed, Loading, REASONS, count, counted, link, moment } from "./ui.js";
import { get } from "./api.js";
import { Growing, Part, speaker } from "./message.js";

const SIZE = 20;
export const JUMPS = {
  pruned: "prune",
  restored: "prune undone",
  compacted: "compaction",
  "compaction-failed": "compaction failed",
  "compaction-undone": "compaction undone",
  "rolled-back": "rollback",
  fork: "fork",
  forked: "fork",
  removed: "message removed",
  redacted: "redaction",
  forgotten: "forgotten",
  settled: "settled after a crash",
  interrupt: "stop asked for",
  "broke-off": "answer broke off",
};

export function jumpWords(jump) {
  const freed = jump.freed ? `, ${count(jump.freed)} tokens freed` : "";
  const after = jump.after ? `, ${jump.before ? `${count(jump.before)} → ` : ""}${count(jump.after)} tokens` : "";
  const what = jump.kind === "compacted" ? "" : jump.what;
  return `${JUMPS[jump.kind] || jump.kind}${what ? ` ${what}` : ""}${freed}${after}`;
}

export function Versions({ id, info, query }) {
  const newest = info?.version || 1;
  const [at, setAt] = useState(Number(query.get("at")) || null);
  const [shown, setShown] = useState(at);
  useEffect(() => setAt(Number(query.get("at")) || null), [query.get("at")]);
  const { value: history, error: historyError } = useLoaded((signal) => get("history", { session: id }, signal), [id]);
  const here = Math.min(at ?? newest, newest);
  useEffect(() => {
    const timer = setTimeout(() => {
      setShown(here);
      if (at !== null) history && window.history.replaceState(null, "", link("s", id, "versions") + `?at=${here}`);
    }, shown === null ? 0 : 120);
    return () => clearTimeout(timer);
  }, [here, info]);
  const jumps = history?.jumps || [];
  const go = (version) => setAt(Math.max(1, Math.min(newest, version)));
  const next = () => jumps.find((jump) => jump.version > here);
  const previous = () => jumps.findLast((jump) => jump.version < here);
  useKeys({
    "[": () => previous() && go(previous().version),
    "]": () => next() && go(next().version),
    ArrowLeft: (event) => (event.target.type === "range" ? false : go(here - 1)),
    ArrowRight: (event) => (event.target.type === "range" ? false : go(here + 1)),
  });
  const current = jumps.filter((jump) => jump.version === shown);
  const before = current.length ? shown - 1 : jumps.findLast((jump) => jump.version < shown)?.version ?? 1;
  const { value: diff } = useLoaded((signal) => (history && shown && before >= 1 && before < shown ? get("changes", { session: id, first: before, second: shown }, signal) : Promise.resolve(null)), [id, shown, before, history]);
  const known = diff?.second === shown ? diff : null;
  return html`
    <main id="main" class="versions" tabindex="-1">
      <section class="slider" aria-label="Version">
        <div class="slider-line">
          <button onClick=${() => previous() && go(previous().version)} disabled=${!previous()} title="Previous jump ([)" aria-label="Previous jump">‹</button>
          <div class="track">
            <input type="range" min="1" max=${newest} value=${here} aria-label="Version" aria-valuetext=${`version ${here} of ${newest}`} onInput=${(event) => go(Number(event.target.value))} />
            <svg class="ticks" viewBox="0 0 1000 12" preserveAspectRatio="none" aria-hidden="true">
              ${jumps.map((jump) => html`<rect class=${`tick ${jump.kind}`} x=${((jump.version - 1) / Math.max(1, newest - 1)) * 998} width="2.5" height="12" />`)}
            </svg>
          </div>
          <button onClick=${() => next() && go(next().version)} disabled=${!next()} title="Next jump (])" aria-label="Next jump">›</button>
          <label class="go">version <input type="number" min="1" max=${newest} value=${here} onChange=${(event) => go(Number(event.target.value) || 1)} /></label>
          <select aria-label="Jump to" onChange=${(event) => event.target.value && go(Number(event.target.value))}>
            <option value="">${counted(jumps.length, "jump")} …</option>
            ${jumps.map((jump) => html`<option value=${jump.version} selected=${jump.version === here}>v${jump.version} ${jumpWords(jump)}${jump.hidden ? " (rolled back)" : ""}</option>`)}
          </select>
        </div>
        <${Failed} error=${historyError} />
        ${shown !== null && html`<${Moment} id=${id} at=${shown} jumps=${current} diff=${known} />`}
      </section>
      ${shown !== null && info && html`<${Sides} key=${shown} id=${id} at=${shown} fresh=${current.length ? known : null} />`}
    </main>
  `;
}

function Moment({ id, at, jumps, diff }) {
  const { value: view, error } = useLoaded((signal) => get("view", { session: id, at }, signal), [id, at]);
  return html`
    <div class="moment">
      <${Failed} error=${error} />
      ${view && html`<p><b>Version ${count(view.at)}</b> <span class="dim">${moment(view.time, { seconds: true })} · ${view.event}</span> · the model saw ${counted(view.messages, "message")}${view.model && ` · ${view.model}`}</p>`}
      ${jumps.map((jump) => html`<p class=${`jump ${jump.kind}`}>${jumpWords(jump)}${jump.session ? html` <a href=${link("s", jump.session)}>open it</a>` : null}</p>`)}
      ${diff && diff.sentences.length > 0 && html`<p class="dim">Since version ${count(diff.first)}: ${diff.sentences.join("; ")}</p>`}
      ${view && (view.system.length > 0 || view.tools) && html`<details class="thought"><summary>System prompt and tools then</summary>${view.system.map((text) => html`<pre tabindex="0" dir="auto">${text}</pre>`)}${view.tools && html`<pre tabindex="0">${view.tools}</pre>`}</details>`}
    </div>
  `;
}

function Sides({ id, at, fresh }) {
  const box = useRef(null);
  const [rows, setRows] = useState(null);
  const [more, setMore] = useState(false);
  const [error, setError] = useState(null);
  const growing = useMemo(() => new Growing(), []);
  const load = async (before) => {
    try {
      const page = await get("messages", { session: id, at, before, size: SIZE, seen: 1 });
      setRows((known) => [...page.messages, ...(before ? known : [])]);
      setMore(page.more);
    } catch (failure) {
      setError(failure);
    }
  };
  useEffect(() => void load(null), [id, at]);
  useEffect(() => {
    if (rows && fresh) box.current?.querySelector(".fresh")?.scrollIntoView({ block: "center" });
  }, [rows && fresh]);
  const changed = new Set((fresh?.parts || []).map((part) => part.part));
  if (error) return html`<${Failed} error=${error} />`;
  if (!rows) return html`<${Loading} />`;
  const gone = rows.filter((message) => !message.seen).length;
  return html`
    <div class="sides" ref=${box} role="group" aria-label="Everything, and what the model saw">
      <h2>Everything</h2>
      <h2>What the model saw <span class="dim small">${gone ? `${counted(gone, "message")} of these it did not` : ""}</span></h2>
      ${more && html`<button class="wide both" onClick=${() => load(rows[0].version)}>Older messages</button>`}
      ${[...rows].map((message) => html`<${Row} key=${message.id} message=${message} id=${id} growing=${growing} changed=${changed} />`)}
    </div>
  `;
}

function Row({ message, id, growing, changed }) {
  const who = speaker(message);
  const view = message.view || {};
  const added = view["+"];
  const same = message.seen && !added && message.parts.every((part) => !view[part.id] || view[part.id].state === "same");
  const fresh = message.parts.some((part) => changed.has(part.id));
  const head = (side) => html`<header><b>${who}</b>${message.model && side === "left" && html`<span class="dim model">${message.model}</span>`}<span class="grow"></span><span class="version">v${message.version}</span></header>`;
  return html`
    <div class="pair-left">
      <article class=${`message ${message.role} ${message.summary ? "summary" : ""}`} aria-label=${`${who}, version ${message.version}`}>
        ${head("left")}
        <div class="parts">${message.parts.map((part) => html`<${Part} key=${part.id} part=${{ ...part, reason: "shown", seen: true }} message=${{ ...message, seen: true }} session=${id} growing=${growing} />`)}</div>
      </article>
    </div>
    <div class=${`pair-right ${same ? "all-same" : ""} ${fresh ? "fresh" : ""}`}>
      ${same && html`<p class="as-said">✓ the model saw it as it was said</p>`}
      ${message.seen
        ? html`<article class=${`message ${message.role}`} aria-label=${`${who}, version ${message.version}, as the model saw it`}>
            ${head("right")}
            <div class="parts">${message.parts.map((part) => html`<${Seen} key=${part.id} part=${part} seen=${view[part.id]} message=${message} id=${id} growing=${growing} />`)}
            ${added && html`<div class="seen added"><span class="tag">added: ${REASONS[added.reason] || added.reason}</span><pre tabindex="0" dir="auto">${added.text}</pre></div>`}</div>
          </article>`
        : html`<p class="seen gone"><span class="tag why">gone: ${REASONS[message.reason] || message.reason}</span></p>`}
    </div>
  `;
}

function Seen({ part, seen, message, id, growing }) {
  if (!seen) return null;
  const reason = seen.reason === "shown" ? "a preview stands for the output" : REASONS[seen.reason] || seen.reason;
  if (seen.state === "gone") return part.reason === "never-sent" || part.reason === "empty" ? null : html`<p class="seen gone small"><span class="tag why">gone: ${reason}</span></p>`;
  if (seen.state === "same") return html`<div class="seen same"><${Part} part=${part} message=${message} session=${id} growing=${growing} /></div>`;
  const words = seen.state === "added" ? "added by the view" : `changed: ${reason}`;
  return html`<div class=${`seen ${seen.state}`}><span class="tag">${words}</span>${part.kind === "tool" && html`<span class="tool-name">${part.tool}</span>`}<pre tabindex="0" dir="auto">${seen.text}</pre></div>`;
}
