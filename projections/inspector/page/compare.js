// What the model saw at two versions, side by side; what differs is marked.
import { html, useEffect, useMemo, useState, useLoaded, Failed, Loading, REASONS, count, counted, link, signed } from "./ui.js";
import { get } from "./api.js";
import { Growing, speaker } from "./message.js";
import { Seen } from "./versions.js";

const SIZE = 40;

export function Compare({ id, info, query }) {
  const newest = info?.version || 1;
  const [first, second] = ["first", "second"].map((name, index) => Math.max(1, Math.min(Number(query.get(name)) || (index ? newest : 1), newest)));
  if (!info) return html`<main id="main" tabindex="-1"><${Loading} /></main>`;
  return html`<${Both} key=${`${first} ${second}`} id=${id} newest=${newest} versions=${[first, second]} />`;
}

function Both({ id, newest, versions }) {
  const [first, second] = versions;
  const [sides, setSides] = useState(null); // of each version: {messages, more}
  const [error, setError] = useState(null);
  const growing = useMemo(() => new Growing(), []);
  const { value: diff } = useLoaded((signal) => get("changes", { session: id, first, second }, signal), [id]);
  const load = async (before) => {
    try {
      const pages = await Promise.all(versions.map((at) => get("messages", { session: id, at, before, size: SIZE, seen: 1 })));
      setSides((known) => pages.map((page, side) => ({ more: page.more, messages: [...page.messages, ...(before ? known[side].messages : [])] })));
    } catch (failure) {
      setError(failure);
    }
  };
  useEffect(() => void load(null), []);
  const to = (side) => (event) => {
    const chosen = [...versions];
    chosen[side] = Number(event.target.value) || 1;
    location.hash = link("s", id, "compare") + `?first=${chosen[0]}&second=${chosen[1]}`;
  };
  const field = (side, label) => html`<label>${label} <input type="number" min="1" max=${newest} value=${versions[side]} onChange=${to(side)} /></label>`;
  // where one side has more to load, older messages of the other wait for it
  const from = sides ? Math.max(0, ...sides.map((side) => (side.more ? side.messages[0].version : 0))) : 0;
  const rows = new Map();
  sides?.forEach((side, index) => side.messages.forEach((message) => {
    if (message.version >= from) rows.set(message.id, Object.assign(rows.get(message.id) || [], { [index]: message }));
  }));
  const ordered = [...rows.values()].sort((one, two) => (one[0] || one[1]).version - (two[0] || two[1]).version);
  return html`
    <main id="main" class="versions" tabindex="-1">
      <h2>What the model saw at two versions</h2>
      <p class="compare-fields">${field(0, "left: version")} ${field(1, "right: version")} <a href=${link("s", id, "versions") + `?at=${second}`}>Back to the slider</a></p>
      <${Failed} error=${error} />
      ${diff && html`<p role="status">From ${count(diff.tokens[0])} to ${counted(diff.tokens[1], "token")}, <b>${signed(diff.tokens[1] - diff.tokens[0])}</b>${diff.sentences.length > 0 ? html` <span class="dim">(${diff.sentences.join("; ")})</span>` : ", no difference in what was said"}</p>`}
      ${!sides && !error && html`<${Loading} />`}
      ${sides && html`<div class="sides compared" role="group" aria-label="The two versions">
        ${from > 0 && html`<button class="wide both" onClick=${() => load(from)}>Older messages</button>`}
        ${ordered.map((row) => {
          const differs = saw(row[0]) !== saw(row[1]);
          return [0, 1].map((side) => html`<div class=${`pair-${side ? "right" : "left"} ${differs && side ? "fresh" : ""}`}><p class="side-mark" aria-hidden="true">version ${versions[side]}</p><${Side} message=${row[side]} id=${id} growing=${growing} /></div>`);
        })}
      </div>`}
    </main>
  `;
}

/** What the model saw of a message, to be compared; "" where it saw nothing. */
const saw = (message) => (message?.seen ? JSON.stringify([message.view, message.parts.map((part) => [part.id, part.html ?? part.text ?? part.gist, part.status, part.size])]) : "");

function Side({ message, id, growing }) {
  if (!message) return html`<p class="seen gone small"><span class="tag">not said yet</span></p>`;
  const name = `${speaker(message)}, version ${message.version}`;
  if (!message.seen) return html`<p class="seen gone small"><span class="dim">${name}</span> <span class="tag why">${REASONS[message.reason] || message.reason}</span></p>`;
  const added = message.view?.["+"];
  return html`<article class=${`message ${message.role}`} aria-label=${name}>
    <header><h2>${speaker(message)}</h2><span class="grow"></span><span class="version">v${count(message.version)}</span></header>
    <div class="parts">${message.parts.map((part) => html`<${Seen} key=${part.id} part=${part} seen=${message.view?.[part.id]} message=${message} id=${id} growing=${growing} />`)}
    ${added && html`<div class="seen added"><span class="tag">added</span><pre tabindex="0" dir="auto">${added.text}</pre></div>`}</div>
  </article>`;
}
