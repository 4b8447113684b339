// Everything that was said, by words: newest first, each hit with the words around it.
import { html, link, Failed, Loading, moment, useLoaded, counted } from "./ui.js";
import { get } from "./api.js";

export function Search({ query }) {
  const words = query.get("q") || "";
  const { value, error, loading } = useLoaded((signal) => get("sessions", { text: words, limit: 50 }, signal), [words]);
  return html`
    <main id="main" class="list" tabindex="-1">
      <h1>Search: <bdi>${words}</bdi></h1>
      <${Failed} error=${error} />
      ${loading && html`<${Loading} />`}
      ${value && html`<p class="dim" role="status">${counted(value.found ?? 0, "session")} by title</p>
        <ol class="rows">${value.sessions.map((info) => html`<li><a class="row hit" href=${link("s", info.id)}><span class="row-title"><bdi>${info.title}</bdi></span><span class="dim">${moment(info.updated)}</span></a></li>`)}</ol>`}
    </main>
  `;
}
