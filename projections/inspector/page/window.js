// The window over time: tokens by kind, stacked, against what a request may have.
import { html, useEffect, useRef, useState, Failed, Loading, compact, count, counted, link, signed } from "./ui.js";
import { get } from "./api.js";
import { jumpWords, lane } from "./versions.js";

export const KINDS = {
  system: "system prompt",
  tools: "tool schemas",
  summary: "summary",
  carried: "carried over",
  user: "user text",
  assistant: "assistant text",
  reasoning: "reasoning",
  calls: "tool calls",
  results: "tool results",
  attachments: "attachments",
  frames: "frames",
};
const NAMES = Object.keys(KINDS);
const MANY = 400000; // tokens from which a look ahead takes seconds, and is taken when it is asked for

const WHOLE = Array.from({ length: 30 }, (_, place) => [1, 2, 5][place % 3] * 10 ** Math.floor(place / 3)); // versions are whole numbers

let charts = null;
const chartLibrary = () =>
  (charts ??= new Promise((resolve, reject) => {
    const sheet = Object.assign(document.createElement("link"), { rel: "stylesheet", href: "page/vendor/uplot.css" });
    const script = Object.assign(document.createElement("script"), { src: "page/vendor/uplot.js" });
    script.onload = () => resolve(window.uPlot);
    script.onerror = () => reject(new Error("the chart could not be loaded"));
    document.head.append(sheet, script);
  }));

export function WindowView({ id }) {
  const [points, setPoints] = useState([]);
  const [left, setLeft] = useState(null);
  const [error, setError] = useState(null);
  const [jumps, setJumps] = useState([]);
  const [now, setNow] = useState(null);
  const [chosen, setChosen] = useState(null);
  const [looking, setLooking] = useState(false);

  const look = async (signal) => {
    setLooking(true);
    setNow(await get("window-now", { session: id }, signal));
  };
  useEffect(() => {
    const control = new AbortController();
    (async () => {
      try {
        const { signal } = control;
        setJumps((await get("history", { session: id }, signal)).jumps);
        let found = [];
        for (let answer = { left: 1 }; answer.left; ) {
          answer = await get("window", { session: id, have: found.length }, signal);
          found = [...found.slice(0, answer.from), ...answer.points];
          setPoints(found);
          setLeft(answer.left);
        }
        if (found[found.length - 1].total < MANY) await look(signal);
      } catch (failure) {
        if (failure.name !== "AbortError") setError(failure);
      }
    })();
    return () => control.abort();
  }, [id]);

  const changes = jumps.filter((jump) => ["pruned", "compacted", "rolled-back"].includes(lane(jump)));
  const point = points[chosen ?? points.length - 1];
  return html`
    <main id="main" class="window" tabindex="-1">
      <${Failed} error=${error} />
      ${left === null && !error ? html`<${Loading} what="Counting tokens" />` : null}
      ${points.length > 0 && html`
        <section aria-labelledby="over-time">
          <h2 id="over-time">Tokens in the window, version by version</h2>
          <p class="dim" role="status">${left ? `Counting: ${left} of ${points.length + left} versions are left.` : `${counted(points.length, "version")} counted. ${point.usable ? `${count(point.usable)} tokens are usable, the most that a request may have.` : "The limits of the model are not known."}`}</p>
          ${points.length > 1 && html`<${Chart} points=${points} jumps=${changes} choose=${setChosen} />`}
          <${Legend} point=${point} drawn=${points.length > 1} />
        </section>
        ${changes.length > 0 && html`<section aria-labelledby="freed"><h2 id="freed">What was freed, in tokens</h2><${Freed} id=${id} changes=${changes} points=${points} /></section>`}
        ${points.length > 1 && html`<details class="thought"><summary>The chart as a table</summary><${Table} points=${points} /></details>`}`}
      ${now ? html`<${Now} report=${now} />` : looking && !error ? html`<${Loading} what="Looking at what would go next" />` : left === 0 ? html`<button class="wide" onClick=${() => look().catch(setError)}>Look at what would go next</button>` : null}
    </main>
  `;
}

function Chart({ points, jumps, choose }) {
  const box = useRef(null);
  const plot = useRef(null);
  const current = useRef(null);
  current.current = { jumps, choose, points };
  const data = stacked(points);
  useEffect(() => {
    const control = new AbortController();
    const { signal } = control;
    chartLibrary().then((uPlot) => {
      if (signal.aborted || !box.current) return;
      const draw = () => {
        plot.current?.destroy();
        plot.current = new uPlot(options(box.current, current), stacked(current.current.points), box.current);
      };
      draw();
      let width = box.current.clientWidth;
      const sized = new ResizeObserver(() => {
        if (box.current && Math.abs(box.current.clientWidth - width) > 2) {
          width = box.current.clientWidth;
          draw();
        }
      });
      const coloured = new MutationObserver(draw);
      sized.observe(box.current);
      coloured.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw, { signal });
      signal.addEventListener("abort", () => (sized.disconnect(), coloured.disconnect()));
    });
    return () => {
      control.abort();
      plot.current?.destroy();
      plot.current = null;
    };
  }, []);
  useEffect(() => plot.current?.setData(data), [points.length]);
  const last = points[points.length - 1];
  const peak = Math.max(...points.map((point) => point.total));
  const words = `Tokens by kind over ${points.length} versions; now ${count(last.total)}, at most ${count(peak)}${last.usable ? `, usable ${count(last.usable)}` : ""}`;
  return html`<div class="chart" ref=${box} role="img" aria-label=${words}></div>`;
}

/** Each kind on top of those before it; the topmost series comes first, so that it is drawn first. */
function stacked(points) {
  const sums = points.map(() => 0);
  const series = NAMES.map((name) => points.map((point, index) => (sums[index] += point.kinds[name])));
  return [points.map((point) => point.version), ...series.reverse(), points.map((point) => point.usable)];
}

function options(box, current) {
  const probe = box.appendChild(document.createElement("i")); // a canvas knows no light-dark()
  const resolved = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const colours = Object.fromEntries([...NAMES, "usable", "jump-pruned", "jump-compacted", "jump-rolled-back"].map((name) => [name, resolved(`kind-${name}`)]));
  const colour = (name) => colours[name];
  const ink = resolved("chart-ink");
  const grid = { stroke: resolved("chart-grid"), width: 1 };
  probe.remove();
  const axis = { stroke: ink, grid, ticks: grid, font: "12px system-ui" };
  return {
    width: box.clientWidth,
    height: Math.max(220, Math.min(420, innerHeight * 0.42)),
    legend: { show: false },
    scales: { x: { time: false }, y: { range: (_, __, most) => [0, most * 1.06 || 1] } },
    cursor: { y: false, drag: { x: false, y: false } },
    axes: [{ ...axis, incrs: WHOLE, values: (_, values) => values.map((value) => `v${compact(value)}`) }, { ...axis, size: 56, values: (_, values) => values.map(compact) }],
    series: [
      {},
      ...[...NAMES].reverse().map((name) => ({ label: KINDS[name], fill: colour(name), stroke: colour(name), width: 0.5, points: { show: false } })),
      { label: "usable", stroke: colour("usable"), width: 2, dash: [6, 5], points: { show: false } },
    ],
    hooks: {
      setCursor: [(plot) => current.current.choose(plot.cursor.idx ?? null)],
      draw: [
        (plot) => {
          const { ctx, bbox } = plot;
          ctx.save();
          ctx.setLineDash([3, 4]);
          for (const jump of current.current.jumps) {
            const x = plot.valToPos(jump.version, "x", true);
            if (x < bbox.left || x > bbox.left + bbox.width) continue;
            ctx.strokeStyle = colour(`jump-${lane(jump)}`) || ink;
            ctx.lineWidth = 1.5 * devicePixelRatio;
            ctx.beginPath();
            ctx.moveTo(x, bbox.top);
            ctx.lineTo(x, bbox.top + bbox.height);
            ctx.stroke();
          }
          ctx.restore();
        },
      ],
    },
  };
}

function Legend({ point, drawn }) {
  return html`
    <div class="legend">
      <p><b>v${count(point.version)}</b> <span class="dim">${point.calls ? `after ${counted(point.calls, "step")}` : "before the first step"}</span> <b>${count(point.total)}</b> tokens${point.usable ? html` <span class="dim">of ${count(point.usable)}, ${Math.round((100 * point.total) / point.usable)} %</span>` : ""}</p>
      <ul>${NAMES.filter((name) => point.kinds[name]).map((name) => html`<li><span class=${`swatch ${name}`} aria-hidden="true"></span>${KINDS[name]} <b>${count(point.kinds[name])}</b></li>`)}</ul>
      ${drawn && html`<ul class="dim">${[["usable", "usable"], ["pruned", "prune"], ["compacted", "compaction"], ["rolled-back", "rollback"]].map(([name, words]) => html`<li><span class=${`line-key ${name}`} aria-hidden="true"></span>${words}</li>`)}</ul>`}
    </div>
  `;
}

function Freed({ id, changes, points }) {
  const at = new Map(points.map((point) => [point.version, point]));
  return html`
    <div class="scroll-x" tabindex="0"><table>
      <thead><tr><th>version</th><th>what</th><th class="n">before</th><th class="n">after</th><th class="n">change</th></tr></thead>
      <tbody>${changes.map((jump) => {
        // a provider's compaction counts from the next request on, once its answer has ended
        const isLate = jump.kind === "provider-compaction";
        const before = at.get(jump.version - 1);
        const after = isLate ? points.find((point) => point.version > jump.version) : at.get(jump.version);
        return html`<tr class=${jump.hidden ? "unseen" : ""}><td><a href=${link("s", id, "versions") + `?at=${jump.version}`}>v${count(jump.version)}</a></td><td>${jumpWords(jump).replace(/ cleared \(policy .*\)$/, "")}</td><td class="n">${count(before?.total)}</td><td class="n">${count(after?.total)}</td><td class="n"><b>${before && after ? signed(after.total - before.total) : jump.kind === "pruned" && jump.tokens ? html`<span title="as it was recorded; this version was not counted">≈ ${signed(-jump.tokens)}</span>` : "–"}</b></td></tr>`;
      })}</tbody>
    </table></div>
  `;
}

function Table({ points }) {
  const used = NAMES.filter((name) => points.some((point) => point.kinds[name]));
  return html`
    <div class="scroll-x" tabindex="0"><table>
      <thead><tr><th>version</th>${used.map((name) => html`<th class="n">${KINDS[name]}</th>`)}<th class="n">all</th><th class="n">usable</th></tr></thead>
      <tbody>${points.map((point) => html`<tr><td>v${count(point.version)}</td>${used.map((name) => html`<td class="n">${count(point.kinds[name])}</td>`)}<td class="n"><b>${count(point.total)}</b></td><td class="n">${count(point.usable)}</td></tr>`)}</tbody>
    </table></div>
  `;
}

function Now({ report }) {
  const most = Math.max(report.usable || 0, report.tokens, 1);
  return html`
    <section aria-labelledby="now">
      <h2 id="now">Now</h2>
      <p>${count(report.tokens)} tokens${report.usable ? html` of ${count(report.usable)} usable, ${Math.round((100 * report.tokens) / report.usable)} %` : " of a window whose size is not known"}. <span class="dim">${report.model ? `Model ${report.model}` : "No model"}, preset ${report.preset}, counted with ${report.counter}.</span></p>
      <div class="fill" role="img" aria-label=${`${Math.round((100 * report.tokens) / most)} percent full`}>
        ${NAMES.map((name) => report.kinds[name] > 0 && html`<span class=${`swatch ${name}`} style=${{ width: `${(100 * report.kinds[name]) / most}%` }} title=${`${KINDS[name]}: ${count(report.kinds[name])}`}></span>`)}
      </div>
      <dl class="facts-list">
        <dt>Next step</dt><dd>${report.next_step.step}${report.next_step.reason && ` (${report.next_step.reason})`}</dd>
        <dt>Next prune</dt><dd>${!report.prune.enabled ? "switched off" : report.prune.parts.length ? `${counted(report.prune.parts.length, "result")}, about ${count(report.prune.freed)} tokens (policy ${report.prune.policy})` : `nothing worth clearing (policy ${report.prune.policy})`}</dd>
        <dt>Next compaction</dt><dd>${report.compaction ? `${counted(report.compaction.messages, "message")}, ${count(report.compaction.tokens)} tokens; ${counted(report.compaction.tail_messages, "message")} stay` : "nothing to compact"}</dd>
      </dl>
      ${report.largest_parts.length > 0 && html`<h3>The largest parts</h3>
      <div class="scroll-x" tabindex="0"><table class="largest">
        <thead><tr><th class="n">tokens</th><th>kind</th><th>tool</th><th>part</th></tr></thead>
        <tbody>${report.largest_parts.map((part) => html`<tr><td class="n"><b>${count(part.tokens)}</b></td><td>${part.kind}${part.pruned ? ", cleared" : ""}${part.truncated ? ", preview" : ""}</td><td>${part.tool} <span class="dim"><bdi>${part.title}</bdi></span></td><td class="mono small">${part.id}</td></tr>`)}</tbody>
      </table></div>`}
    </section>
  `;
}
