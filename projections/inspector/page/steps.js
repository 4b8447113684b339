// Every model call: the exact request, its digest and whether it matches, tokens and cost.
import { html, useEffect, useRef, useState, useKeys, useLoaded, Failed, Loading, compact, count, counted, dollars, duration, link, moment } from "./ui.js";
import { get } from "./api.js";
import { Given } from "./message.js";

const VERDICTS = {
  match: ["match", "the request rebuilt from the events has the recorded digest"],
  mismatch: ["mismatch", "the rebuilt request differs from the recorded digest"],
  unknown: ["unknown", "no digest was recorded"],
  redacted: ["redacted", "a part of the request was redacted since"],
};

const Verdict = ({ verdict }) => (verdict ? html`<span class=${`verdict ${verdict}`} title=${VERDICTS[verdict][1]}>${{ match: "✓", mismatch: "✗", unknown: "?", redacted: "▮" }[verdict]} ${VERDICTS[verdict][0]}</span>` : html`<span class="dim">…</span>`);

export function Steps({ id, path }) {
  return path[0] ? html`<${Step} key=${path[0]} id=${id} number=${Number(path[0])} />` : html`<${List} id=${id} />`;
}

function List({ id }) {
  const [pages, setPages] = useState(null);
  const [verdicts, setVerdicts] = useState({});
  const [error, setError] = useState(null);
  const body = useRef(null);
  const load = async (before) => {
    try {
      const page = await get("steps", { session: id, before });
      setPages((known) => [...(before ? known : []), page]);
      if (!page.steps.length) return;
      const numbers = page.steps.map((step) => step.number);
      const found = await get("verdicts", { session: id, first: Math.min(...numbers), last: Math.max(...numbers) });
      setVerdicts((known) => ({ ...known, ...Object.fromEntries(found.steps.map((step) => [step.number, step.verdict])) }));
    } catch (failure) {
      setError(failure);
    }
  };
  useEffect(() => void load(null), [id]);
  const focus = (by) => () => {
    const links = [...(body.current?.querySelectorAll("a") ?? [])];
    const at = links.indexOf(document.activeElement);
    links[Math.max(0, Math.min(links.length - 1, at < 0 ? 0 : at + by))]?.focus();
  };
  useKeys({ j: focus(1), k: focus(-1) });
  const sums = pages?.[0];
  const rows = (pages || []).flatMap((page) => page.steps);
  return html`
    <main id="main" class="steps" tabindex="-1">
      <${Failed} error=${error} />
      ${!pages && !error && html`<${Loading} />`}
      ${sums && html`<p class="sums"><span><b>${count(sums.all)}</b> steps</span><span><b>${compact(sums.input)}</b> tokens in</span><span><b>${sums.input ? Math.round((100 * sums.cached) / sums.input) : 0} %</b> from a cache</span><span><b>${compact(sums.output)}</b> tokens out</span><span><b>${dollars(sums.cost) || "–"}</b> ${sums.priced < sums.all ? `for ${sums.priced} priced` : "in all"}</span></p>`}
      ${sums && !rows.length && html`<div class="empty"><p>No model call is recorded.</p></div>`}
      ${rows.length > 0 && html`<div class="scroll-x" tabindex="0"><table class="steps-table">
        <thead><tr><th>step</th><th>when</th><th>model</th><th class="n">counted</th><th class="n">reported</th><th class="n">cached</th><th class="n">out</th><th class="n">cost</th><th>request</th></tr></thead>
        <tbody ref=${body}>${rows.map((step) => html`
          <tr class=${step.hidden ? "unseen" : ""}>
            <td><a href=${link("s", id, "steps", String(step.number))} aria-label=${`Step ${step.number}`}>${count(step.number)}</a>${step.purpose !== "turn" ? html` <span class="tag">${step.purpose}</span>` : null}${step.failed ? html` <span class="tag bad">failed</span>` : null}${step.hidden ? html` <span class="tag why">rolled back</span>` : null}</td>
            <td class="dim">${moment(step.time)}</td>
            <td class="dim">${step.model}</td>
            <td class="n">${count(step.counted)}</td>
            <td class="n">${count(step.reported)}</td>
            <td class="n">${step.input + step.cache_read ? `${Math.round((100 * step.cache_read) / (step.input + step.cache_read + step.cache_write))} %` : "–"}</td>
            <td class="n">${count(step.output)}</td>
            <td class="n">${dollars(step.cost) || "–"}</td>
            <td><${Verdict} verdict=${verdicts[step.number]} /></td>
          </tr>`)}</tbody>
      </table></div>`}
      ${pages?.[pages.length - 1].more ? html`<button class="wide" onClick=${() => load(rows[rows.length - 1].number)}>Earlier steps</button>` : null}
    </main>
  `;
}

function Step({ id, number }) {
  const [more, setMore] = useState([]);
  const { value: step, error } = useLoaded((signal) => get("request", { session: id, step: number }, signal), [id, number]);
  const request = step?.request;
  const messages = request ? [...request.messages, ...more] : [];
  const load = async () => {
    const page = await get("request", { session: id, step: number, from: messages.length });
    setMore([...more, ...page.request.messages]);
  };
  const other = (by) => () => {
    const to = number + by;
    if (to >= 1 && (!step || to <= step.steps)) location.hash = link("s", id, "steps", String(to));
  };
  useKeys({ "[": other(-1), "]": other(1) });
  return html`
    <main id="main" class="steps" tabindex="-1">
      <nav class="crumbs" aria-label="Steps"><a href=${link("s", id, "steps")}>All steps</a><button onClick=${other(-1)} disabled=${number <= 1} aria-label="Previous step" title="Previous step ([)">‹</button><button onClick=${other(1)} disabled=${step && number >= step.steps} aria-label="Next step" title="Next step (])">›</button></nav>
      <h2>Step ${number}${step ? ` of ${step.steps}` : ""}</h2>
      <${Failed} error=${error} />
      ${!step && !error && html`<${Loading} what="Rebuilding the request" />`}
      ${step && html`
        <p class="verdict-line"><${Verdict} verdict=${step.verdict} /> ${step.reason && html`<span>${step.reason}</span>`}</p>
        <dl class="facts-list">
          <dt>Recorded digest</dt><dd class="mono small wrap">${step.recorded || "none"}</dd>
          <dt>Rebuilt digest</dt><dd class="mono small wrap">${step.rebuilt || "none"}</dd>
          <dt>Tokens counted</dt><dd>${count(step.counted)}</dd>
          <dt>Tokens reported</dt><dd>${count(step.reported)} <span class="dim">${step.reported !== null ? `(${count(step.input)} in, ${count(step.cache_read)} read from a cache, ${count(step.cache_write)} written to one, ${count(step.output)} out${step.reasoning ? `, ${count(step.reasoning)} reasoning` : ""})` : ""}</span></dd>
          <dt>Cost</dt><dd>${dollars(step.cost) || "not known"}</dd>
          <dt>Model</dt><dd>${step.model || "–"}</dd>
          <dt>When</dt><dd>${moment(step.time, { seconds: true })}${step.ended ? `, took ${duration(step.ended - step.time)}` : ""}</dd>
          <dt>View</dt><dd>${step.view_version ? html`<a href=${link("s", id, "versions") + `?at=${step.view_version}`}>right after version ${count(step.view_version)}</a>, ${step.renderer}` : "not recorded"}</dd>
        </dl>
        ${!request && html`<p class="empty">The request cannot be rebuilt${step.reason ? `: ${step.reason}` : ""}.</p>`}
        ${request && html`
          <h2>The request <span class="dim">${counted(request.of, "message")}</span></h2>
          ${request.system.map((text) => html`<details class="sent" open=${text.length < 600}><summary><b>system</b> <span class="dim">${count(text.length)} characters</span></summary><pre tabindex="0" dir="auto">${text}</pre></details>`)}
          ${request.tools && html`<details class="sent"><summary><b>tools</b> <span class="dim">${count(request.tools.length)} characters</span></summary><pre tabindex="0">${request.tools}</pre></details>`}
          ${messages.map((message, index) => html`<${Sent} message=${message} index=${index} />`)}
          ${messages.length < request.of && html`<button class="wide" onClick=${load}>More of the request: ${messages.length} of ${request.of} messages are shown</button>`}`}`}
    </main>
  `;
}

function Sent({ message, index }) {
  return html`
    <section class=${`sent ${message.role}`} aria-label=${`Message ${index + 1}, ${message.role}`}>
      <h3>${index + 1}. ${message.role}</h3>
      ${message.parts.map((part) => {
        if (part.type === "call") return html`<div class="sent-part"><span class="tool-name">${part.tool}</span> <span class="dim mono small">${part.call}</span><${Given} text=${part.input} /></div>`;
        if (part.type === "result") return html`<div class="sent-part"><span class="dim">result of</span> <span class="tool-name">${part.tool}</span>${part.error ? html` <span class="tag bad">error</span>` : null}<pre tabindex="0" dir="auto">${part.output ?? ""}</pre></div>`;
        if (part.type === "file") return html`<p class="attachment"><span class="tag">${part.mime}</span> ${part.filename || ""}</p>`;
        return html`<div class="sent-part">${part.type === "reasoning" && html`<span class="dim">reasoning</span>`}<pre tabindex="0" dir="auto">${part.text}</pre></div>`;
      })}
    </section>
  `;
}
