// Every model call: the exact request, its digest and whether it matches, tokens and cost.
import { html, useEffect, useRef, useState, useKeys, useLoaded, Cost, Failed, Loading, compact, count, counted, duration, link, moment } from "./ui.js";
import { get } from "./api.js";
import { Given, ran, stateOf } from "./message.js";

const VERDICTS = {
  match: ["match", "the request rebuilt from the log has the recorded digest"],
  mismatch: ["mismatch", "the request rebuilt from the log has another digest than the recorded one"],
  unknown: ["unknown", "no digest was recorded, so it cannot be checked"],
  redacted: ["redacted", "a part of the request was redacted since, so it cannot be checked"],
};

const COLUMNS = [
  ["took", (step) => (step.took === null ? "–" : duration(step.took)), "from the request to the end of the answer, before its tools ran; – if not recorded"],
  ["first", (step) => (step.wait === null ? "–" : duration(step.wait)), "from the request until the answer began"],
  ["counted in", (step) => count(step.counted), "tokens of the request, counted before it was sent"],
  ["reported in", (step) => count(step.reported), "tokens of the request, as the provider reported them, cached ones included"],
  ["from cache", (step) => (step.input + step.cache_read ? `${Math.round((100 * step.cache_read) / (step.input + step.cache_read + step.cache_write))} %` : "–"), "share of these that the provider read from its cache"],
  ["out", (step) => (step.reported === null ? "–" : count(step.output)), "tokens of the answer"],
  ["cost", (step) => html`<${Cost} ...${step} />`, "US dollars"],
];

const SORTS = { "": "newest first", cost: "most expensive first", tokens: "most tokens first", time: "longest first, with tools" };

/** How a call failed, or its reply broke off; a stop is no failure. */
const Ending = ({ step }) => {
  if (!step.error) return step.failed ? html`<span class="tag bad">failed</span>` : null;
  const name = step.error.split(":")[0];
  return html`<span class=${`tag ${name === "aborted" ? "why" : "bad"}`} title=${step.error}>broke off: <bdi>${name}</bdi></span>`;
};

/** A call of a tool: how long it ran, and its state unless it has completed. */
const Run = ({ run }) => html`<span class="tool-name">${run.tool}</span> <span class=${run.state === "failed" ? "bad-ink" : "dim"}>${[ran(run), stateOf(run), run.answer && `(${run.answer})`].filter(Boolean).join(" ")}</span>`;

/** The share that came from the cache, with what was missed as its title. */
const FromCache = ({ share, cache }) => (cache?.missed ? html`<span class="missed" title=${`missed ${missed(cache)}`}>${share}</span>` : share);

/** What a step missed in its provider's cache, in words; "" if nothing. */
const missed = (cache) => (cache?.missed ? `${count(cache.missed)}: ${cache.cause}${cache.event === null ? "" : ` at version ${count(cache.event)}`}${cache.lost === null ? "" : `, $${cache.lost}`}` : "");

const Verdict = ({ verdict }) => (verdict ? html`<span class=${`verdict ${verdict}`} title=${VERDICTS[verdict][1]}>${{ match: "✓", mismatch: "✗", unknown: "?", redacted: "▮" }[verdict]} ${VERDICTS[verdict][0]}</span>` : html`<span class="dim">…</span>`);

/** Whether the exact requests of all steps match their digests; a long session is checked piece by piece. */
function Headline({ id }) {
  const [found, setFound] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => {
    const control = new AbortController();
    (async () => {
      for (let known = { checked: -1 }, checked = -2; known.checked > checked; ) {
        checked = known.checked;
        known = await get("audited", { session: id }, control.signal);
        setFound(known);
        if (known.checked >= known.all) return;
      }
    })().catch((failure) => failure.name !== "AbortError" && setError(failure));
    return () => control.abort();
  }, [id]);
  if (error) return html`<${Failed} error=${error} />`;
  if (!found?.all) return null;
  const { match = 0, mismatch = 0, unknown = 0, redacted = 0 } = found.verdicts;
  const others = [[mismatch, "differ from their digest"], [unknown, "have no recorded digest"], [redacted, "had a part that was redacted since"]];
  const state = mismatch ? "mismatch" : match === found.all ? "match" : "unknown";
  return html`<div role="status"><h2 class="headline"><span class=${`verdict ${state}`} aria-hidden="true">${{ match: "✓", mismatch: "✗", unknown: "?" }[state]}</span>
    ${match + mismatch || found.checked < found.all ? `${count(match)} of ${counted(found.all, "exact request")} ${match === 1 ? "matches" : "match"}` : "No exact request can be checked"}${others.map(([number, words]) => (number ? `, ${count(number)} ${words}` : ""))}${found.checked < found.all ? ` (${count(found.all - found.checked)} to be checked …)` : ""}</h2></div>`;
}

export function Steps({ id, path, query }) {
  const sort = query.get("sort") in SORTS ? query.get("sort") : "";
  return path[0] ? html`<${Step} key=${path[0]} id=${id} number=${Number(path[0])} />` : html`<${List} key=${sort} id=${id} sort=${sort} />`;
}

function List({ id, sort }) {
  const [pages, setPages] = useState(null);
  const [verdicts, setVerdicts] = useState({});
  const [error, setError] = useState(null);
  const body = useRef(null);
  const control = useRef(null);
  const load = async (place) => {
    const { signal } = control.current;
    try {
      const page = await get("steps", { session: id, sort, ...place }, signal);
      setPages((known) => [...(known || []), page]);
      const numbers = page.steps.map((step) => step.number).filter(Boolean);
      const ranges = sort ? numbers.map((each) => [each, each]) : numbers.length ? [[Math.min(...numbers), Math.max(...numbers)]] : [];
      for (const [first, last] of ranges) {
        const found = await get("verdicts", { session: id, first, last }, signal);
        setVerdicts((known) => ({ ...known, ...Object.fromEntries(found.steps.map((step) => [step.number, step])) }));
      }
    } catch (failure) {
      if (failure.name !== "AbortError") setError(failure);
    }
  };
  useEffect(() => {
    control.current = new AbortController();
    load({});
    return () => control.current.abort();
  }, [id]);
  const focus = (by) => () => {
    const links = [...(body.current?.querySelectorAll("a") ?? [])];
    const at = links.indexOf(document.activeElement);
    links[Math.max(0, Math.min(links.length - 1, at < 0 ? 0 : at + by))]?.focus();
  };
  useKeys({ j: focus(1), k: focus(-1) });
  const sums = pages?.[0];
  const rows = (pages || []).flatMap((page) => page.steps);
  const least = sums?.untold ? "≥ " : ""; // of a sum in which some calls are missing
  const known = sums && sums.reported !== null;
  return html`
    <main id="main" class="steps" tabindex="-1">
      <${Failed} error=${error} />
      ${!pages && !error && html`<${Loading} />`}
      ${sums && html`<${Headline} id=${id} />`}
      ${sums && html`<p class="sums">
        <span><b>${count(sums.all)}</b> ${sums.all === 1 ? "step" : "steps"}${sums.recorded < sums.all ? `, the request of ${count(sums.all - sums.recorded)} was not recorded` : ""}${sums.untold ? `, ${count(sums.untold)} without usage` : ""}</span>
        <span><b>${known ? least : ""}${compact(sums.reported)}</b> tokens in</span>
        <span><b>${sums.reported ? `${Math.round((100 * sums.cache_read) / sums.reported)} %` : "–"}</b> from a cache</span>
        <span><b>${known ? `${least}${compact(sums.output)}` : "–"}</b> tokens out</span>
        <span>cost <b><${Cost} ...${sums} unknown=${sums.unknown + sums.untold} /></b>${sums.unknown ? `, not known for ${counted(sums.unknown, "call")}` : ""}${sums.estimate ? `, by list prices of ${sums.prices}` : ""}</span>
        ${sums.all > 1 && html`<label>Order <select onChange=${(event) => (location.hash = link("s", id, "steps") + (event.target.value && `?sort=${event.target.value}`))}>${Object.entries(SORTS).map(([name, label]) => html`<option value=${name} selected=${name === sort}>${label}</option>`)}</select></label>`}
      </p>`}
      ${sums && !rows.length && html`<div class="empty"><p>No model call is recorded.</p></div>`}
      ${rows.length > 0 && html`<div class="scroll-x" tabindex="0"><table class="steps-table" role="table">
        <thead role="rowgroup"><tr role="row">${["step", "exact request", "when", "model", "tools"].map((name) => html`<th role="columnheader">${name}</th>`)}${COLUMNS.map(([name, , title]) => html`<th role="columnheader" class="n" title=${title}>${name}</th>`)}</tr></thead>
        <tbody role="rowgroup" ref=${body}>${rows.map((step) => html`
          <tr role="row" class=${step.hidden ? "unseen" : ""}>
            <td role="cell" class="which">${step.number === null ? html`<a href=${link("s", id, "versions") + `?at=${step.version}`}>v${count(step.version)}</a>` : html`<a href=${link("s", id, "steps", String(step.number))} aria-label=${`Step ${step.number}`}>${count(step.number)}</a>`}${step.purpose !== "turn" ? html` <span class="tag">${step.purpose}</span>` : null} <${Ending} step=${step} />${step.hidden ? html` <span class="tag why">rolled back</span>` : null}</td>
            <td role="cell" class="verdict-cell">${step.number === null ? html`<span class="dim">not recorded</span>` : html`<${Verdict} verdict=${verdicts[step.number]?.verdict} />`}</td>
            <td role="cell" class="dim when-cell">${moment(step.time, { seconds: true })}</td>
            <td role="cell" class="dim model-cell">${step.model}</td>
            <td role="cell" class="tools-cell">${step.tools.map((run) => html`<span class="nowrap"><${Run} run=${run} /></span> `)}</td>
            ${COLUMNS.map(([name, value]) => html`<td role="cell" class="n" data-name=${name}>${name === "from cache" ? html`<${FromCache} share=${value(step)} cache=${verdicts[step.number]?.cache} />` : value(step)}</td>`)}
          </tr>`)}</tbody>
      </table></div>`}
      ${pages?.[pages.length - 1].more ? html`<button class="wide" onClick=${() => load(sort ? { skip: rows.length } : { before: rows[rows.length - 1].version })}>${sort ? "More steps" : "Earlier steps"}</button>` : null}
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
        <p class="verdict-line"><${Verdict} verdict=${step.verdict} /> <span>${step.reason || VERDICTS[step.verdict][1]}</span></p>
        <dl class="facts-list">
          <dt>Recorded digest</dt><dd class="mono small wrap">${step.recorded || "none"}</dd>
          <dt>Rebuilt digest</dt><dd class="mono small wrap">${step.rebuilt || "none"}</dd>
          <dt>Tokens in</dt><dd>${count(step.counted)} counted before sending${step.reported !== null ? html`, ${count(step.reported)} reported <span class="dim">(${count(step.cache_read)} from a cache, ${count(step.cache_write)} written to it, ${count(step.input)} others)</span>` : ", none reported"}</dd>
          ${step.cache && (step.cache.expected || step.cache.reported) ? html`<dt>From the cache</dt><dd>${count(step.cache.reported)} ${step.cache.reported > step.cache.expected ? `tokens, more than the ${count(step.cache.expected)} that the request before had` : `of ${count(step.cache.expected)} tokens that the request before had, too`}${step.cache.missed ? html` <span class="dim">(missed ${missed(step.cache)})</span>` : ""}</dd>` : null}
          <dt>Tokens out</dt><dd>${step.reported === null ? "–" : count(step.output)}${step.reasoning ? html` <span class="dim">(${count(step.reasoning)} of them reasoning)</span>` : ""}</dd>
          <dt>Cost</dt><dd><${Cost} ...${step} none=${step.model || step.calls ? "not known" : "–"} />${step.estimate ? html` <span class="dim">by list prices of ${step.prices}; none was recorded</span>` : ""}</dd>
          <dt>Model</dt><dd>${step.model || "no model is recorded"}</dd>
          ${(step.error || step.failed) && html`<dt>End</dt><dd><${Ending} step=${step} />${step.error.includes(": ") && html` <span dir="auto">${step.error.slice(step.error.indexOf(": ") + 2)}</span>`}</dd>`}
          <dt>When</dt><dd>${moment(step.time, { seconds: true })}${step.took === null ? "" : `, took ${duration(step.took)}`}${step.wait === null ? "" : `, the answer began after ${duration(step.wait)}`}</dd>
          ${step.tools.length > 0 && html`<dt>Tools</dt><dd>${step.tools.map((run, index) => html`${index ? ", " : ""}<${Run} run=${run} />`)}</dd>`}
          <dt>Made from</dt><dd>${step.view_version ? html`<a href=${link("s", id, "versions") + `?at=${step.view_version}`}>version ${count(step.view_version)}</a> of the session <span class="dim">(form ${step.renderer})</span>` : html`not recorded; <a href=${link("s", id, "versions") + `?at=${step.version}`}>version ${count(step.version)}</a> is when it began`}</dd>
        </dl>
        ${!request && html`<p class="empty">The request cannot be rebuilt${step.reason ? `: ${step.reason}` : ""}.</p>`}
        ${request && html`
          <h2>The request <span class="dim">${counted(request.of, "message")}</span></h2>
          ${request.system.map((text) => html`<details class="sent" open=${text.length < 600}><summary><b>system</b> <span class="dim">${count(text.length)} characters</span></summary><pre tabindex="0" dir="auto">${text}</pre></details>`)}
          ${request.tools && html`<details class="sent"><summary><b>tools</b> <span class="dim">${count(request.tools.length)} characters</span></summary><pre tabindex="0">${request.tools}</pre></details>`}
          ${request.format && html`<details class="sent"><summary><b>output format</b></summary><pre tabindex="0">${request.format}</pre></details>`}
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
        if (part.type === "result") return html`<div class="sent-part"><span class="dim">result of</span> <span class="tool-name">${part.tool}</span>${part.error ? html` <span class="tag bad">error</span>` : null}<pre tabindex="0" dir="ltr">${part.output ?? ""}</pre></div>`;
        if (part.type === "file") return html`<p class="attachment"><span class="tag">${part.mime}</span> ${part.filename || ""}</p>`;
        return html`<div class="sent-part">${part.type === "reasoning" && html`<span class="dim">reasoning</span>`}<pre tabindex="0" dir="auto">${part.text}</pre></div>`;
      })}
    </section>
  `;
}
