// The shell: the address decides the view, the bar above has search, keys and colours.
import { html, render, useEffect, useRef, useState, useKeys, link, Failed, State, compact, count, counted, Costs, ago, useLoaded } from "./ui.js";
import { address, get } from "./api.js";
import { Sessions } from "./sessions.js";
import { Transcript } from "./transcript.js";
import { Compare } from "./compare.js";
import { Versions } from "./versions.js";
import { WindowView } from "./window.js";
import { Steps } from "./steps.js";
import { Tree } from "./tree.js";
import { Replay } from "./replay.js";
import { Search } from "./search.js";
import { Usage } from "./usage.js";

const VIEWS = [
  ["", "Transcript", Transcript],
  ["versions", "Versions", Versions],
  ["window", "Window", WindowView],
  ["steps", "Steps", Steps],
  ["tree", "Tree", Tree],
  ["replay", "Replay", Replay],
];

const EXPORTS = [["markdown", "Markdown"], ["html", "HTML page"], ["jsonl", "Events (JSON Lines)"]];

const KEYS = [
  ["/", "search"],
  ["1 … 6", "the views of a session"],
  ["j, k", "next, previous message or row"],
  ["g, G", "first, newest message"],
  ["Enter", "open what is focused"],
  ["[ , ]", "previous, next jump"],
  ["← , →", "one version back, on"],
  ["Space", "play or pause a replay"],
  ["u", "up: to the list of sessions"],
  ["t", "light, dark, or as the system"],
  ["?", "these keys"],
];

function place() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { path: path.split("/").map(decodeURIComponent), query: new URLSearchParams(query) };
}

function usePlace() {
  const [where, set] = useState(place);
  useEffect(() => {
    const moved = () => set(place());
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  return where;
}

const THEMES = ["", "light", "dark"];

function useTheme() {
  const [theme, set] = useState(localStorage.getItem("theme") || "");
  useEffect(() => {
    localStorage.setItem("theme", theme);
    document.documentElement.dataset.theme = theme;
  }, [theme]);
  return [theme, () => set(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length])];
}

function App() {
  const { path, query } = usePlace();
  const [theme, nextTheme] = useTheme();
  const help = useRef(null);
  const field = useRef(null);
  const inSession = path[0] === "s" && path[1];
  useKeys({
    "/": () => field.current.focus(),
    "?": () => help.current.showModal(),
    t: nextTheme,
    u: () => (location.hash = "#/"),
    ...Object.fromEntries(VIEWS.map(([name], index) => [String(index + 1), () => (inSession ? (location.hash = link("s", path[1], name)) : false)])),
  });
  useEffect(() => {
    if (!inSession) document.title = path[0] === "search" ? `${query.get("q") || ""} – search – eventlog` : `${path[0] === "usage" ? "Usage" : "Sessions"} – eventlog`;
  });
  const search = (event) => {
    event.preventDefault();
    const words = field.current.value.trim();
    location.hash = words ? `#/search?q=${encodeURIComponent(words)}` : "#/";
    field.current.blur();
  };
  return html`
    <a class="skip" href="#main" onClick=${(event) => (event.preventDefault(), document.getElementById("main")?.focus())}>To the content</a>
    <header class="bar">
      <a class="brand" href="#/" aria-label="eventlog: sessions"><img src="page/icon.svg" alt="" width="22" height="22" /><span>eventlog</span></a>
      <form role="search" onSubmit=${search}>
        <input ref=${field} type="search" aria-label="Search everything that was said" placeholder="Search everything that was said" value=${path[0] === "search" ? query.get("q") : ""} />
      </form>
      <a class="to-usage" href="#/usage" aria-current=${path[0] === "usage" ? "page" : null}>Usage</a>
      <button class="quiet" onClick=${nextTheme} aria-label=${`Colours: ${theme || "as the system"}`} title="Colours (t)">${{ "": "◐", light: "☀", dark: "☾" }[theme]}</button>
      <button class="quiet" onClick=${() => help.current.showModal()} aria-label="Keys" title="Keys (?)">?</button>
    </header>
    ${inSession ? html`<${Session} key=${path[1]} id=${path[1]} path=${path.slice(2)} query=${query} />` : path[0] === "search" ? html`<${Search} query=${query} />` : path[0] === "usage" ? html`<${Usage} query=${query} />` : path[0] && path[0] !== "s" ? html`<${Nowhere} />` : html`<${Sessions} query=${query} />`}
    <dialog ref=${help} aria-labelledby="keys-title" onClick=${(event) => event.target === help.current && help.current.close()}>
      <h2 id="keys-title">Keys</h2>
      <dl class="keys">${KEYS.map(([key, what]) => html`<dt><kbd>${key}</kbd></dt><dd>${what}</dd>`)}</dl>
      <form method="dialog"><button autofocus>Close</button></form>
    </dialog>
  `;
}

const Nowhere = () => html`<main id="main" tabindex="-1"><h1>No such page</h1><p>The inspector has no page <code>${location.hash}</code>.</p><p><a href="#/">All sessions</a></p></main>`;

function Session({ id, path, query }) {
  const [again, setAgain] = useState(0);
  const waiting = useRef(null);
  useEffect(() => () => clearTimeout(waiting.current), []);
  /** What is followed has changed: so have the facts above it, which are read once a second at most. */
  const changed = () => {
    waiting.current ??= setTimeout(() => {
      waiting.current = null;
      setAgain((before) => before + 1);
    }, 1000);
  };
  const { value: info, error } = useLoaded((signal) => get("session", { session: id, quick: again ? null : 1 }, signal), [id, path[0], again]);
  useEffect(() => {
    if (!info?.partial) return;
    const timer = setTimeout(() => setAgain(again + 1), 1000); // the rest is being read
    return () => clearTimeout(timer);
  }, [info]);
  const chosen = VIEWS.find(([name]) => name === (path[0] === "compare" ? "versions" : path[0] || "")) || [path[0], "No such page", Nowhere];
  const [name, words] = chosen;
  const View = path[0] === "compare" ? Compare : chosen[2];
  const title = info ? info.title || info.id : id;
  useEffect(() => {
    document.title = `${title} – ${words} – eventlog`;
  });
  if (error) return html`<main id="main" tabindex="-1"><h1 class="visually-hidden">${id}</h1><${Failed} error=${error} /><p><a href="#/">All sessions</a></p></main>`;
  return html`
    <section class="about" aria-label="About the session">
      <div class="about-line">
        <h1 title=${title}><bdi>${title}</bdi></h1>
        ${info && html`<${State} state=${info.state} />`}
        <details class="exports"><summary>Export</summary><div>${EXPORTS.map(([format, label]) => html`<a href=${address("export", { session: id, format })} download>${label}</a>`)}</div></details>
      </div>
      <p class="facts">
        ${info
          ? html`<span class="mono">${info.id}</span>
              ${info.scope && html`<span><bdi>${info.scope}</bdi></span>`}
              ${info.model && html`<span>${info.model}</span>`}
              <span title="of the transcript, neither removed nor rolled back">${counted(info.messages, "message")}</span>
              <span>${counted(info.events, "event")}</span>
              ${info.tokens > 0 && html`<span>${compact(info.tokens)} tokens</span>`}
              ${(info.calls > 0 || info.together?.calls > 0) && html`<span><${Costs} info=${info} /></span>`}
              <span>${ago(info.updated)}</span>
              ${info.fork_of && html`<span>fork of <a href=${link("s", info.fork_of)}>${info.fork_of}</a> at v${count(info.forked_at)}</span>`}
              ${info.parent && html`<span>sub-session of <a href=${link("s", info.parent)}>${info.parent}</a></span>`}`
          : "…"}
      </p>
      <nav class="tabs" aria-label="Views of the session">
        ${VIEWS.map(([other, label], index) => html`<a href=${link("s", id, other)} aria-current=${other === name ? "page" : null} title=${`${label} (${index + 1})`}>${label}</a>`)}
      </nav>
    </section>
    <${View} key=${path[0] || ""} id=${id} info=${info} path=${path.slice(1)} query=${query} changed=${changed} />
  `;
}

render(html`<${App} />`, document.getElementById("app"));
