// One message of a chat: its parts, calls folded, and why the model does not see what it does not.
import { html, Component, useEffect, useRef, useState, Copy, Cost, Rendered, REASONS, Failed, Loading, count, counted, compact, link, moment, duration, visible } from "./ui.js";
import { address, get } from "./api.js";

/** Texts of parts that grow while they are watched: the view that follows them asks here. */
export class Growing {
  constructor() {
    this.texts = new Map();
    this.watchers = new Map();
  }
  set(part, text) {
    this.texts.set(part, text);
    this.watchers.get(part)?.(text);
  }
  watch(part, tell) {
    this.watchers.set(part, tell);
    return () => this.watchers.delete(part);
  }
}

/** A text that grows: only its new end is added to the page. */
export function Stream({ part, text, growing, code = false }) {
  const box = useRef(null);
  useEffect(() => {
    const node = box.current;
    let shown = growing.texts.get(part) ?? text ?? "";
    node.textContent = visible(shown);
    return growing.watch(part, (now) => {
      if (now.startsWith(shown)) node.append(visible(now.slice(shown.length)));
      else node.textContent = visible(now);
      shown = now;
    });
  }, [part]);
  return html`<div class="stream" dir=${code ? "ltr" : "auto"}><span ref=${box}></span><span class="caret" aria-hidden="true"></span></div>`;
}

export const speaker = (message) =>
  message.summary ? "Summary" : message.role !== "user" ? "Assistant" : message.parts.some((part) => part.kind === "compaction") ? "Compaction" : message.synthetic ? "Program" : "User";

export class Message extends Component {
  shouldComponentUpdate(next) {
    return next.message !== this.props.message || next.spent !== this.props.spent || next.at !== this.props.at;
  }
  render({ message, session, growing, spent }) {
    const who = speaker(message);
    const reason = message.seen ? "" : REASONS[message.reason] || message.reason;
    return html`
      <article class=${`message ${message.role} ${message.summary ? "summary" : ""} ${message.seen ? "" : "unseen"}`} tabindex="-1" data-version=${message.version}
        aria-label=${`${who}, version ${message.version}${reason ? `, not seen by the model: ${reason}` : ""}`}>
        <header>
          <h2>${who}</h2>
          ${message.agent && html`<span>${message.agent}</span>`}
          ${message.model && html`<span class="dim model">${message.model}</span>`}
          ${reason && html`<span class="tag why">${reason}</span>`}
          <span class="when-said">
            <time class="dim">${moment(message.created)}</time>
            ${spent && html`<${Spent} steps=${spent} />`}
            <span class="copies"><${Copy} label="Markdown" what="this message as Markdown" text=${() => copies(session, message).then((found) => found.markdown)} /><${Copy} label="JSON" what="this message as JSON" text=${() => copies(session, message).then((found) => JSON.stringify(found.json, null, 2))} /></span>
            <a class="version" href=${link("s", session, "versions") + `?at=${message.version}`} title="What the model saw then">v${count(message.version)}</a>
          </span>
        </header>
        <div class="parts">
          ${message.parts.map((part) => html`<${Part} key=${part.id} part=${part} message=${message} session=${session} growing=${growing} run=${spent?.flatMap((step) => step.tools).find((run) => run.part === part.id)} />`)}
          ${message.open && !message.parts.some((part) => part.open) ? html`<span class="caret" role="status" aria-label="The answer is being written"></span>` : null}
          ${message.error && html`<p class="failed">${message.error}</p>`}
        </div>
      </article>
    `;
  }
}

const copies = (session, message) => get("copies", { session, version: message.version, at: message.at });

/** Tokens, cost and times of all model calls of a message. */
function Spent({ steps }) {
  const sum = (value) => steps.reduce((total, step) => total + Number(value(step) || 0), 0);
  const known = steps.filter((step) => step.reported !== null);
  const silent = steps.length - known.length;
  const [cost, estimate] = ["cost", "estimate"].map((name) => (steps.some((step) => step[name] !== null) ? sum((step) => step[name]) : null));
  const { wait } = steps[0];
  const took = steps.every((step) => step.took !== null) && sum((step) => step.took);
  return html`
    ${known.length > 0 && html`<span class="dim" title="Tokens of the requests, and of the answers">${silent ? "≥ " : ""}${compact(sum((step) => step.reported))} → ${compact(sum((step) => step.output))} tokens</span>`}
    ${(cost !== null || estimate !== null) && html`<span class="dim"><${Cost} cost=${cost} estimate=${estimate} unknown=${silent + sum((step) => step.unknown)} /></span>`}
    ${wait !== null && html`<span class="dim" title="Time until the answer began">first after ${duration(wait)}</span>`}
    ${took > 0 && html`<span class="dim" title="Time of the model calls, without their tools">${duration(took)}</span>`}
  `;
}

export const ran = (run) => (run && run.began !== null && run.ended !== null ? duration(run.ended - run.began) : "");

const STATES = {
  asked: "waits for a person",
  allowed: "a person allowed it; a loop runs it",
  interrupted: "it was interrupted: how far it came is unknown",
  unfinished: "it has no end, and no task runs it: the model is told that it was interrupted",
};

/** The state of a call unless it has completed, or who answered says it. */
export const stateOf = ({ state, answer }) => (state === "completed" || (state === "allowed" && answer) ? "" : state);

export function Part({ part, message, session, growing, run, unfolded = false }) {
  const own = message.seen && !part.seen ? REASONS[part.reason] ?? part.reason : message.seen && part.reason !== "shown" ? REASONS[part.reason] : "";
  const body = partBody(part, message, session, growing, unfolded, run);
  if (!body) return null;
  const quiet = part.reason === "never-sent" || part.reason === "empty";
  return html`<div class=${`part ${part.kind} ${own && !part.seen && !quiet ? "unseen" : ""}`}>${own && !quiet && part.kind !== "tool" ? html`<span class="tag why">${own}</span>` : null}${body}</div>`;
}

function partBody(part, message, session, growing, unfolded, run) {
  switch (part.kind) {
    case "tool":
      return html`<${Call} part=${part} message=${message} session=${session} growing=${growing} unfolded=${unfolded} run=${run} />`;
    case "text":
      return html`<${Text} part=${part} message=${message} session=${session} growing=${growing} />`;
    case "reasoning":
      if (part.open) return html`<div class="thought-open"><span class="dim">Thinking</span><${Stream} part=${part.id} text=${part.text} growing=${growing} /></div>`;
      if (!part.size) return null;
      return html`<details class="thought"><summary>Thought <span class="dim">${count(part.size)} characters</span></summary><${Text} part=${part} message=${message} session=${session} growing=${growing} /></details>`;
    case "file":
      return html`<${Attached} file=${part} place=${{ session, part: part.id }} />`;
    case "subtask":
      return html`<details class="thought"><summary>Subtask for ${part.tool || "an agent"}: <bdi>${part.title}</bdi></summary><pre tabindex="0" dir="auto">${part.text}</pre></details>`;
    case "compaction":
    case "provider-compaction":
      return html`<p class="mark"><span>${part.kind === "compaction" ? "compaction" : "compaction of the provider"}</span></p>${part.text && html`<p class="dim small"><bdi>${part.text}</bdi></p>`}`;
    case "patch":
      return html`<details class="thought"><summary>Files changed <span class="dim">${part.text.split("\n").length}</span></summary><pre tabindex="0">${part.text}</pre></details>`;
    default:
      return part.text ? html`<p class="dim small">${part.kind}: <bdi>${part.text}</bdi></p>` : null;
  }
}

/** A stored file: a picture that the server knows by its first bytes, or a download; an address is text. */
function Attached({ file, place }) {
  const [broken, setBroken] = useState(false);
  const name = file.filename || file.text || "file";
  const kind = html`<span class="tag">${file.mime || "file"}</span>`;
  if (file.text) return html`<p class="attachment">${kind} <bdi>${name}</bdi></p>`;
  const at = address("file", place);
  if (/^image\/(png|jpe?g|gif|webp)$/.test(file.mime) && !broken)
    return html`<figure class="picture"><img src=${at} alt=${`Picture ${name}`} loading="lazy" onError=${() => setBroken(true)} /><figcaption>${kind} <bdi>${name}</bdi></figcaption></figure>`;
  return html`<p class="attachment">${kind} <a href=${at} download=${name}><bdi>${name}</bdi></a></p>`;
}

function Text({ part, message, session, growing }) {
  const [more, setMore] = useState(null);
  if (part.open) return html`<${Stream} part=${part.id} text=${part.text} growing=${growing} />`;
  if (part.html === undefined) return html`<div class="prose" dir="auto">${part.text}</div>`;
  if (!more && part.shown < part.size)
    return html`<${Rendered} html=${part.html} /><button class="more" onClick=${() => setMore(true)}>Show more: ${compact(part.shown)} of ${compact(part.size)} characters are shown</button>`;
  return more ? html`<${Whole} part=${part} message=${message} session=${session} />` : html`<${Rendered} html=${part.html} />`;
}

/** The text of a part in pieces of at most 200,000 characters; the next comes when it is asked for. */
function Whole({ part, message, session, call = false }) {
  const [pieces, setPieces] = useState([]);
  const [error, setError] = useState(null);
  const load = (from) =>
    get("part", { session, part: part.id, at: message.at, from }).then((piece) => setPieces((before) => [...before.filter((each) => each.from < from), piece]), setError);
  useEffect(() => void load(0), [part.id, part.status]);
  const last = pieces[pieces.length - 1];
  if (error) return html`<${Failed} error=${error} />`;
  if (!last) return html`<${Loading} />`;
  return html`
    ${call && html`<${Given} text=${pieces[0].input} />`}
    ${call && pieces[0].arguments_pruned && html`<p class="dim">Large arguments are cleared from the view.</p>`}
    ${call && pieces[0].error && html`<h4>Error</h4><pre class="output bad" tabindex="0" dir="ltr">${pieces[0].error}</pre>`}
    ${call && last.size > 0 && html`<h4>Result <span class="dim">${count(last.size)} characters${pieces[0].pruned ? ", cleared from the view" : ""}</span></h4>`}
    ${pieces.map((piece) => piece.html ? html`<${Rendered} html=${piece.html} />` : piece.size ? html`<pre class="output" tabindex="0" dir=${call ? "ltr" : "auto"}>${piece.text}</pre>` : null)}
    ${call && pieces[0].files?.map((file, index) => html`<${Attached} file=${file} place=${{ session, part: part.id, index }} />`)}
    ${last.end < last.size && html`<button class="more" onClick=${() => load(last.end)}>Show more: ${compact(last.end)} of ${compact(last.size)} characters are shown</button>`}
  `;
}

/** What a call was given: a field for each argument where it is a JSON object. */
export function Given({ text }) {
  let given = null;
  try {
    given = JSON.parse(text);
  } catch {}
  if (!text || text === "{}") return null;
  if (!given || typeof given !== "object" || Array.isArray(given)) return html`<pre class="output" tabindex="0" dir="ltr">${text}</pre>`;
  return html`<dl class="given">
    ${Object.entries(given).map(([name, value]) => {
      const shown = visible(typeof value === "string" ? value : JSON.stringify(value, null, 2));
      return html`<dt>${visible(name)}</dt><dd>${shown.includes("\n") || shown.length > 120 ? html`<pre tabindex="0" dir="ltr">${shown}</pre>` : html`<code dir="ltr">${shown}</code>`}</dd>`;
    })}
  </dl>`;
}

function Call({ part, message, session, growing, unfolded, run }) {
  const [open, setOpen] = useState(unfolded);
  useEffect(() => void (unfolded && setOpen(true)), [unfolded]);
  const why = message.seen && !["shown", "asked", "interrupted"].includes(part.reason) ? REASONS[part.reason] : ""; // these are states
  const state = stateOf({ state: part.status, answer: run?.answer });
  return html`
    <details class=${`call ${part.status}`} open=${open} onToggle=${(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <span class="tool-name">${part.tool}</span>
        <span class="gist" dir="ltr">${part.title && part.title !== part.gist ? part.title : part.gist}</span>
        ${why && html`<span class="tag why">${why}</span>`}
        ${state && html`<span class=${`tag ${state === "failed" ? "bad" : part.open ? "running" : "why"}`} title=${STATES[state]}>${state}</span>`}
        ${run?.files > 0 && html`<span class="tag">${counted(run.files, "file")}</span>`}
        ${run?.answer && html`<span class="tag">${run.answer}</span>`}
        <span class="dim size">${ran(run)}</span>
        <span class="dim size">${part.size ? `${compact(part.size)} chars` : ""}</span>
      </summary>
      ${open && html`<div class="call-body">
        ${part.open ? html`<${Stream} part=${part.id} text="" growing=${growing} code=${true} />` : html`<${Whole} part=${part} message=${message} session=${session} call=${true} />`}
      </div>`}
    </details>
    ${run?.subsession && html`<p class="small">↳ <a href=${link("s", run.subsession)}>The sub-session of this call</a></p>`}
  `;
}
