// A slider over versions: everything that was said up to one, beside what the model saw then.
import { html, useEffect, useMemo, useRef, useState, useKeys, useLoaded, Failed, Loading, REASONS, count, counted, link, moment, signed } from "./ui.js";
import { get } from "./api.js";
import { Growing, Part, speaker } from "./message.js";

const SIZE = 20;
const FEW = 4; // changed parts whose calls are unfolded, so that both sides are seen
export const JUMPS = {
  pruned: "prune",
  restored: "prune undone",
  "media-replaced": "media named instead of sent",
  "media-restored": "media sent again",
  compacted: "compaction",
  "compaction-failed": "compaction failed",
  "compaction-undone": "compaction undone",
  "provider-compaction": "compaction of the provider",
  "rolled-back": "rollback",
  fork: "fork",
  forked: "fork",
  removed: "message removed",
  redacted: "redaction",
  forgotten: "forgotten",
  settled: "closed after a crash",
  interrupt: "stop requested",
  "broke-off": "answer broke off",
};

/** What a jump did, in words; ids say nothing to a reader and are left out. */
export function jumpWords(jump) {
  const name = JUMPS[jump.kind] || jump.kind;
  const what = jump.what;
  switch (jump.kind) {
    case "pruned": {
      const [parts, policy] = what.split(", policy ");
      return `${name}: ${parts} cleared${policy ? ` (policy ${policy})` : ""}`;
    }
    case "restored":
      return `${name}: ${what} shown again`;
    case "rolled-back":
      return `${name} ${what.replace("to ", "to version ")}`;
    case "forked":
      return `${name} ${what.replace(/ at (?=\d+$)/, " at version ")}`;
    case "broke-off":
      return `${name}${what.replace(/^[^:]*:? ?/, ": ").replace(/: $/, "")}`;
    case "compacted":
    case "compaction-undone":
    case "removed":
    case "redacted":
      return name;
    case "provider-compaction":
      return `${name}${what.replace(/^[^,]*/, "")}`;
    default:
      return `${name}${what ? `: ${what}` : ""}`;
  }
}

/** The kinds of jumps that have a lane of their own below the slider, and what others are called. */
const LANES = { pruned: "prune", compacted: "compaction", "rolled-back": "rollback", fork: "fork", other: "other change" };
const SAME = { forked: "fork", "provider-compaction": "compacted" };
export const lane = (jump) => SAME[jump.kind] ?? (jump.kind in LANES ? jump.kind : "other");

function Lanes({ jumps, newest }) {
  const used = Object.keys(LANES).filter((name) => jumps.some((jump) => lane(jump) === name));
  return html`<svg class="lanes" style=${{ height: `${used.length * 7}px` }} viewBox=${`0 0 1000 ${used.length * 7}`} preserveAspectRatio="none" aria-hidden="true">
    ${jumps.map((jump) => html`<path class=${`tick ${lane(jump)}`} d=${`M${2 + ((jump.version - 1) / Math.max(1, newest - 1)) * 996} ${used.indexOf(lane(jump)) * 7 + 1}v5`} />`)}
  </svg>`;
}

const Marks = ({ jumps }) => html`<ul class="marks" aria-label="Marks below the slider">
  ${Object.entries(LANES).map(([name, words]) => [name, words, jumps.filter((jump) => lane(jump) === name).length]).map(([name, words, number]) => (number ? html`<li><span class=${`swatch tick-key ${name}`} aria-hidden="true"></span>${counted(number, words)}</li>` : null))}
</ul>`;

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
  const [chosen, setChosen] = useState(-1); // a version may have several jumps
  const listed = jumps[chosen]?.version === here ? chosen : jumps.findIndex((jump) => jump.version === here);
  const choose = (index) => {
    setChosen(index);
    go(jumps[index].version);
  };
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
  // two whole views are compared: at jumps only, for a slider that moves asks at each stop
  const { value: diff } = useLoaded((signal) => (current.length && shown && before >= 1 && before < shown ? get("changes", { session: id, first: before, second: shown }, signal) : Promise.resolve(null)), [id, shown, before, history]);
  const known = diff?.second === shown ? diff : null;
  return html`
    <main id="main" class="versions" tabindex="-1">
      <section class="slider" aria-label="Version">
        <div class="slider-line">
          <button onClick=${() => previous() && go(previous().version)} disabled=${!previous()} title="Previous jump ([)" aria-label="Previous jump">‹</button>
          <div class="track">
            <input type="range" min="1" max=${newest} value=${here} aria-label="Version" aria-valuetext=${`version ${here} of ${newest}`} onInput=${(event) => go(Number(event.target.value))} />
            <${Lanes} jumps=${jumps} newest=${newest} />
          </div>
          <button onClick=${() => next() && go(next().version)} disabled=${!next()} title="Next jump (])" aria-label="Next jump">›</button>
          <label class="go">version <input type="number" min="1" max=${newest} value=${here} onChange=${(event) => go(Number(event.target.value) || 1)} /></label>
          <select aria-label="Jump to" onChange=${(event) => event.target.value && choose(Number(event.target.value))}>
            <option value="" selected=${listed < 0}>${jumps.length ? `Jump to one of ${counted(jumps.length, "change")} …` : "No prune, compaction or rollback"}</option>
            ${jumps.map((jump, index) => html`<option value=${index} selected=${index === listed}>v${count(jump.version)} ${jumpWords(jump)}${jump.hidden ? " (rolled back)" : ""}</option>`)}
          </select>
        </div>
        <${Marks} jumps=${jumps} />
        ${here > 1 && html`<p class="small"><a href=${link("s", id, "compare") + `?first=${Math.max(1, before)}&second=${here}`}>Compare two versions side by side</a></p>`}
        ${info && at > newest && html`<p role="status">There is no version ${count(at)}: the newest is ${count(newest)}.</p>`}
        <${Failed} error=${historyError} />
        ${shown !== null && html`<${Moment} id=${id} at=${shown} jumps=${current} diff=${known} />`}
        <div class="side-heads"><h2>Everything that was said</h2><h2>What the model saw</h2></div>
      </section>
      ${shown !== null && info && html`<${Sides} key=${shown} id=${id} at=${shown} fresh=${current.length ? known : null} kinds=${current.map((jump) => jump.kind)} />`}
    </main>
  `;
}

/** Scroll to the newest summary that the sides show: that of the compaction shown. */
function showSummary() {
  const slider = document.querySelector(".slider");
  const summary = [...document.querySelectorAll(".sides .message.summary")].at(-1);
  if (!summary) return;
  summary.style.scrollMarginTop = `${getComputedStyle(slider).position === "sticky" ? slider.offsetHeight + 12 : 0}px`;
  summary.scrollIntoView({ block: "start" });
}

function Moment({ id, at, jumps, diff }) {
  const { value: view, error } = useLoaded((signal) => get("view", { session: id, at }, signal), [id, at]);
  return html`
    <div class="moment">
      <${Failed} error=${error} />
      ${view && html`<p><b>Version ${count(view.at)}</b> <span class="dim">${moment(view.time, { seconds: true })}, ${view.event}</span> · ${counted(view.messages, "message")} of the view${view.model && ` · ${view.model}`}</p>`}
      ${jumps.map((jump) => html`<p class=${`jump ${jump.kind}`}>${jumpWords(jump)}${jump.session ? html` <a href=${link("s", jump.session)}>open it</a>` : null}${jump.kind === "compacted" ? html` <button onClick=${showSummary}>Its summary</button>` : null}</p>`)}
      ${diff && (diff.sentences.length > 0 || diff.tokens[0] !== diff.tokens[1]) && html`<p>Since version ${count(diff.first)} the window went from ${count(diff.tokens[0])} to ${counted(diff.tokens[1], "token")}, <b>${signed(diff.tokens[1] - diff.tokens[0])}</b>${diff.sentences.length > 0 && html` <span class="dim">(${diff.sentences.join("; ")})</span>`}</p>`}
      ${view && (view.system.length > 0 || view.tools) && html`<details class="thought"><summary>System prompt and tools then</summary>${view.system.map((text) => html`<pre tabindex="0" dir="auto">${text}</pre>`)}${view.tools && html`<pre tabindex="0">${view.tools}</pre>`}</details>`}
    </div>
  `;
}

function Sides({ id, at, fresh, kinds }) {
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
    const slider = box.current?.parentElement.querySelector(".slider"); // on a phone it would be scrolled away
    const change = rows && fresh && getComputedStyle(slider).position === "sticky" && (box.current.querySelector(".fresh.chief") || box.current.querySelector(".fresh"));
    if (!change) return;
    change.style.scrollMarginTop = `${slider.offsetHeight + 12}px`;
    change.scrollIntoView({ block: "start" });
  }, [rows && fresh]);
  const changed = new Map((fresh?.parts || []).map((part) => [part.part, kinds.includes(part.kind)])); // whether the jump did it, not a jump that it undid
  if (error) return html`<${Failed} error=${error} />`;
  if (!rows) return html`<${Loading} />`;
  return html`
    <div class="sides" ref=${box} role="group" aria-label="Everything, and what the model saw">
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
  const fresh = message.parts.some((part) => changed.has(part.id)) && (message.parts.some((part) => changed.get(part.id)) ? "fresh chief" : "fresh");
  const head = (side) => html`<header><h2>${who}</h2>${message.model && side === "left" && html`<span class="dim model">${message.model}</span>`}<span class="grow"></span><span class="version">v${count(message.version)}</span></header>`;
  return html`
    <div class="pair-left">
      <p class="side-mark" aria-hidden="true">Said</p>
      <article class=${`message ${message.role} ${message.summary ? "summary" : ""}`} aria-label=${`${who}, version ${message.version}`}>
        ${head("left")}
        <div class="parts">${message.parts.map((part) => html`<${Part} key=${part.id} part=${{ ...part, reason: "shown", seen: true }} message=${{ ...message, seen: true }} session=${id} growing=${growing} unfolded=${changed.size <= FEW && changed.has(part.id)} />`)}</div>
      </article>
    </div>
    <div class=${`pair-right ${same ? "all-same" : ""} ${fresh || ""}`}>
      <p class="side-mark" aria-hidden="true">The model saw</p>
      ${same && html`<p class="as-said">✓ the same</p>`}
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

export function Seen({ part, seen, message, id, growing }) {
  if (!seen) return null;
  const reason = seen.reason === "shown" ? "output cut to a preview" : REASONS[seen.reason] || seen.reason;
  if (seen.state === "gone") return part.reason === "never-sent" || part.reason === "empty" ? null : html`<p class="seen gone small"><span class="tag why">gone: ${reason}</span></p>`;
  if (seen.state === "same") return html`<div class="seen same"><${Part} part=${part} message=${message} session=${id} growing=${growing} /></div>`;
  const words = seen.state === "added" ? "added when the request is made" : `changed: ${reason}`;
  return html`<div class=${`seen ${seen.state}`}><span class="tag">${words}</span>${part.kind === "tool" && html`<span class="tool-name">${part.tool}</span>`}<pre tabindex="0" dir=${part.kind === "tool" ? "ltr" : "auto"}>${seen.text}</pre></div>`;
}
