// What was spent over time: bars by day, and sums by model and scope; filters are in the address.
import { html, useEffect, useState, useLoaded, Cost, Damaged, Failed, Loading, compact, count, counted, dollars } from "./ui.js";
import { get } from "./api.js";

const FIELDS = ["from", "to", "model", "scope", "show"];
const DAY = 86400000;
const MOST = 400; // bars; of a longer time each is some days
const tokens = (sums) => sums.input + sums.cache_read + sums.cache_write + sums.output;

/** Measures: their name, and the pieces of a bar with their colour. */
const MEASURES = {
  "": ["Cost", [["recorded", "user", (sums) => Number(sums.cost || 0)], ["by list prices", "results", (sums) => Number(sums.estimate || 0)]], dollars],
  tokens: ["Tokens", [["in", "user", (sums) => sums.input], ["cache read", "frames", (sums) => sums.cache_read], ["cache write", "results", (sums) => sums.cache_write], ["out", "assistant", (sums) => sums.output]], compact],
  replies: ["Replies", [["replies", "assistant", (sums) => sums.replies]], count],
  errors: ["Errors", [["errors", "attachments", (sums) => sums.errors]], count],
};
const COLUMNS = [
  ["sessions", (sums) => count(sums.sessions)],
  ["replies", (sums) => count(sums.replies), "answers that began"],
  ["errors", (sums) => (sums.errors ? html`<b class="bad-ink">${count(sums.errors)}</b>` : "0"), "answers that ended with an error other than a stop, and failed calls that no answer shows"],
  ["tokens in", (sums) => compact(sums.input), "tokens of requests that no cache had"],
  ["cache read", (sums) => compact(sums.cache_read), "tokens that a cache had"],
  ["cache write", (sums) => compact(sums.cache_write), "tokens that were written to a cache"],
  ["tokens out", (sums) => compact(sums.output)],
  ["cost", (sums) => html`<${Cost} ...${sums} none=${sums.calls ? "not known" : "–"} />`, "US dollars"],
];
const dayOf = (text, plus = 0) => (text && !Number.isNaN(Date.parse(`${text}T00:00Z`)) ? Date.parse(`${text}T00:00Z`) + plus * DAY : null);
const iso = (time) => (time ? new Date(time).toISOString().slice(0, 10) : "no date");

export function Usage({ query }) {
  const given = Object.fromEntries(FIELDS.map((name) => [name, query.get(name)]));
  const [again, setAgain] = useState(0);
  const asked = { model: given.model, scope: given.scope, since: dayOf(given.from), until: dayOf(given.to, 1) };
  const { value: found, error } = useLoaded((signal) => get("usage", asked, signal), [JSON.stringify(asked), again]);
  useEffect(() => {
    if (!found?.behind) return;
    const timer = setTimeout(() => setAgain(again + 1), 200); // the index is being brought up to date
    return () => clearTimeout(timer);
  }, [found]);
  const to = (changed) => `#/usage?${new URLSearchParams(Object.entries({ ...given, ...changed }).filter(([name, value]) => value !== null && (value !== "" || name === "model" || name === "scope")))}`;
  const go = (name) => (event) => (location.hash = to({ [name]: event.target.value }));
  const show = given.show in MEASURES ? given.show : "";
  const choose = (name) => html`<select aria-label=${name === "model" ? "Model" : "Scope"} onChange=${(event) => (location.hash = to({ [name]: event.target.value === "*" ? null : event.target.value.slice(1) }))}>
    <option value="*" selected=${given[name] === null}>all ${name}s</option>
    ${given[name] !== null && !found?.[`${name}s`].some((each) => each[name] === given[name]) && html`<option value=${`=${given[name]}`} selected>${given[name] || `without a ${name}`}</option>`}
    ${found?.[`${name}s`].map((each) => html`<option value=${`=${each[name]}`} selected=${given[name] === each[name]}>${each.shown || `without a ${name}`}</option>`)}
  </select>`;
  return html`
    <main id="main" class="list usage" tabindex="-1">
      <div class="list-head">
        <h1>Usage</h1>
        <div class="filters" role="group" aria-label="Filters">
          <div class="switch">${Object.entries(MEASURES).map(([name, [label]]) => html`<a href=${to({ show: name })} aria-current=${name === show ? "true" : null}>${label}</a>`)}</div>
          <label>from <input type="date" value=${given.from || ""} onChange=${go("from")} /></label>
          <label>to <input type="date" value=${given.to || ""} onChange=${go("to")} /></label>
          ${choose("model")}${choose("scope")}
        </div>
      </div>
      <${Failed} error=${error} />
      ${!found && !error && html`<${Loading} what="Summing up" />`}
      ${found?.behind ? html`<p class="dim" role="status">The index is not up to date yet.</p>` : null}
      <${Damaged} sessions=${found?.damaged} lack="in no sum" />
      ${found && !found.days.length && html`<div class="empty"><p>No reply and no usage ${FIELDS.some((name) => name !== "show" && given[name] !== null) ? "here: change the filters above" : "is recorded"}.</p></div>`}
      ${found?.days.length > 0 && html`
        <p class="sums"><span>cost <b><${Cost} ...${found.total} none="not known" /></b></span><span><b>${compact(tokens(found.total))}</b> tokens</span>${[["replies", "reply"], ["errors", "error"], ["sessions", "session"]].map(([name, one]) => html`<span><b>${count(found.total[name])}</b> ${found.total[name] === 1 ? one : name}</span>`)}</p>
        <${Bars} days=${found.days} show=${show} />
        ${(found.total.estimated > 0 || found.total.unknown > 0) && html`<p class="dim small">${found.total.estimated > 0 && `${counted(found.total.estimated, "call")} without a recorded cost ${found.total.estimated === 1 ? "is" : "are"} estimated by list prices of ${found.prices}. `}${found.total.unknown > 0 && `The cost of ${counted(found.total.unknown, "call")} is not known, and in no sum.`}</p>`}
        <${Table} title="By model" rows=${found.models} more=${found.more_models} name=${(each) => html`<a href=${to({ model: each.model })}><bdi>${each.shown || "without a model"}</bdi></a>`} />
        <${Table} title="By scope" rows=${found.scopes} more=${found.more_scopes} name=${(each) => html`<a href=${to({ scope: each.scope })}><bdi>${each.shown || "without a scope"}</bdi></a>`} />
        <${Table} title="By day" rows=${[...found.days].reverse()} name=${(each) => (each.day ? html`<a href=${to({ from: iso(each.day), to: iso(each.day) })}>${iso(each.day)}</a>` : "no date")} />
        <p class="dim small">Days are those of UTC. What a rollback hides was spent; what a fork inherited counts once.</p>`}
    </main>
  `;
}

/** Bars of a measure, the days without any included; the table below has the numbers. */
function Bars({ days, show }) {
  const [label, pieces, words] = MEASURES[show];
  const dated = days.filter((each) => each.day);
  if (!dated.length) return null;
  const first = dated[0].day;
  const all = (dated[dated.length - 1].day - first) / DAY + 1;
  const step = Math.ceil(all / MOST);
  const bars = Array.from({ length: Math.ceil(all / step) }, (_, index) => ({ day: first + index * step * DAY, parts: pieces.map(() => 0), calls: 0, unknown: 0 }));
  for (const each of dated) {
    const bar = bars[Math.floor((each.day - first) / DAY / step)];
    pieces.forEach(([, , of], index) => (bar.parts[index] += of(each)));
    bar.calls += each.calls;
    bar.unknown += each.unknown;
  }
  const whole = (bar) => bar.parts.reduce((sum, part) => sum + part, 0);
  const most = bars.reduce((found, bar) => (whole(bar) > whole(found) ? bar : found));
  const top = whole(most);
  const cost = (bar) => (bar.calls === bar.unknown ? (bar.calls ? "not known" : "–") : `${bar.unknown ? "≥ " : ""}${dollars(whole(bar))}`);
  const told = show ? (bar) => words(whole(bar)) : cost;
  const legend = pieces.length > 1 && pieces.filter((_, index) => bars.some((bar) => bar.parts[index]));
  return html`<figure class="bars">
    <figcaption><b>${label}</b> by ${step > 1 ? `${step} days` : "day"}, at most ${top > 0 ? words(top) : told(most)}${top > 0 && ` ${step > 1 ? "from" : "on"} ${iso(most.day)}`}${legend && legend.map(([name, kind]) => html` <span class="nowrap"><span class=${`swatch ${kind}`} aria-hidden="true"></span>${name}</span>`)}</figcaption>
    <div style=${{ maxWidth: `${Math.max(3, bars.length) * 2.5}rem` }}><svg viewBox=${`0 0 ${bars.length * 10} 100`} preserveAspectRatio="none" role="img" aria-label=${`${label} by day; the table has the numbers`}>
      ${bars.map((bar, index) => {
        let low = 100;
        return html`<g><title>${`${iso(bar.day)}: ${told(bar)}`}</title><rect class="room" x=${index * 10} y="0" width="10" height="100" />
          ${bar.parts.map((part, place) => {
            const height = top ? (part / top) * 100 : 0;
            low -= height;
            return height > 0 && html`<rect class=${pieces[place][1]} x=${index * 10 + 1} y=${low} width="8" height=${height} />`;
          })}</g>`;
      })}
    </svg>
    <div class="bar-days"><span>${iso(first)}</span>${bars.length > 1 && html`<span>${iso(dated[dated.length - 1].day)}</span>`}</div></div>
  </figure>`;
}

function Table({ title, rows, more = 0, name }) {
  const [all, setAll] = useState(false);
  const shown = all ? rows : rows.slice(0, 31);
  return html`<section><h2>${title}</h2>
    <div class="scroll-x" tabindex="0"><table class="steps-table" role="table" aria-label=${title}>
      <thead role="rowgroup"><tr role="row"><th role="columnheader">${title.slice(3)}</th>${COLUMNS.map(([label, , why]) => html`<th role="columnheader" class="n" title=${why}>${label}</th>`)}</tr></thead>
      <tbody role="rowgroup">${shown.map((each) => html`<tr role="row"><td role="cell" class="named">${name(each)}</td>${COLUMNS.map(([label, value]) => html`<td role="cell" class="n" data-name=${label}>${value(each)}</td>`)}</tr>`)}</tbody>
    </table></div>
    ${shown.length < rows.length && html`<button class="wide" onClick=${() => setAll(true)}>All ${count(rows.length)}</button>`}
    ${more > 0 && html`<p class="dim small">${count(more)} more are not listed.</p>`}
  </section>`;
}
