// A session as people read chats: the newest page first, older ones while scrolling up, deltas live.
import { html, Component, useEffect, useRef, useState, useKeys, link, Failed, Loading } from "./ui.js";
import { get } from "./api.js";
import { Growing, Message } from "./message.js";
import { follow } from "./live.js";
import { Asked } from "./asked.js";

const SIZE = 30;

class Chunk extends Component {
  shouldComponentUpdate(next) {
    return next.messages !== this.props.messages || (next.spent !== this.props.spent && next.messages.some((each) => JSON.stringify(next.spent[each.id]) !== JSON.stringify(this.props.spent[each.id])));
  }
  render({ messages, session, growing, spent }) {
    return html`<div class="chunk">${messages.map((message) => html`<${Message} key=${message.id} message=${message} session=${session} growing=${growing} spent=${spent[message.id]} />`)}</div>`;
  }
}

export function Transcript({ id, query, changed }) {
  const [chunks, setChunks] = useState(null);
  const [more, setMore] = useState(false);
  const [newer, setNewer] = useState(false);
  const around = Number(query.get("v")) || null; // a message to show, instead of the newest
  const [again, setAgain] = useState(0); // how often the first message was asked for
  const [error, setError] = useState(null);
  const [live, setLive] = useState("");
  const scroller = useRef(null);
  const top = useRef(null);
  const [spent, setSpent] = useState({}); // by message: its model calls
  const spentFrom = useRef(null);
  const busy = useRef(false);
  const growing = useRef(null);
  growing.current ??= new Growing();
  const known = useRef([]);
  known.current = chunks || [];

  useEffect(() => {
    let stop = () => {};
    const control = new AbortController();
    setChunks(null);
    // without a checkpoint the reasons take a replay: the messages come first
    get("messages", { session: id, size: SIZE, around, quick: around ? null : 1 }, control.signal).then((page) => {
      setChunks([{ key: "newest", messages: page.messages }]);
      if (!page.marked) setTimeout(() => refresh().catch(setError), 50);
      setMore(page.more);
      setNewer(page.newer);
      if (!page.newer) stop = follow(id, page.newest, growing.current, refresh, setLive);
    }, (failure) => failure.name !== "AbortError" && setError(failure));
    return () => (control.abort(), stop());
  }, [id, around]);
  const oldest = chunks?.[0]?.messages[0]?.version;
  useEffect(() => {
    if (oldest === undefined) return;
    const control = new AbortController();
    // beside the page: a long session takes a while until its model calls are known
    const first = spentFrom.current !== null && oldest >= spentFrom.current ? chunks.at(-1).messages[0]?.version ?? oldest : oldest;
    spentFrom.current = Math.min(oldest, spentFrom.current ?? oldest);
    get("spent", { session: id, first }, control.signal).then((found) => setSpent((known) => ({ ...known, ...found.messages })), () => {});
    return () => control.abort();
  }, [chunks]);
  useEffect(() => {
    if (!around || !chunks) return;
    const all = [...(scroller.current?.querySelectorAll("article.message") ?? [])];
    const found = all.findLast((each) => Number(each.dataset.version) <= around) ?? all[0];
    if (!found) return;
    found.focus({ preventScroll: true });
    found.classList.add("fresh");
    let frames = 12; // what comes into sight gets its true height: until then the place moves
    const settle = () => {
      found.scrollIntoView({ block: "center" });
      if (--frames) requestAnimationFrame(settle);
    };
    settle();
  }, [around, chunks === null, again]);

  /** Read the newest messages again: those that are unchanged stay the same objects. */
  const refresh = async () => {
    changed();
    const newest = known.current[known.current.length - 1];
    if (!newest) return;
    const first = newest.messages[0]?.version ?? 0;
    let page = await get("messages", { session: id, size: SIZE });
    const reaches = !page.more || (page.messages[0]?.version ?? 0) <= (newest.messages[newest.messages.length - 1]?.version ?? 0);
    const before = new Map(newest.messages.map((message) => [message.id, message]));
    const same = (message) => (JSON.stringify(before.get(message.id)) === JSON.stringify(message) ? before.get(message.id) : message);
    const read = page.messages.map(same);
    if (!reaches) {
      setChunks([{ key: "newest", messages: read }]);
      setMore(page.more);
      return;
    }
    const from = read[0]?.version ?? 0;
    const kept = page.more ? newest.messages.filter((message) => message.version < from && message.version >= first) : [];
    setChunks((all) => [...(page.more ? all.slice(0, -1) : []), { key: "newest", messages: [...kept, ...read] }]);
  };

  const older = async () => {
    const oldest = known.current[0]?.messages[0];
    if (busy.current || !oldest) return;
    busy.current = true;
    try {
      const page = await get("messages", { session: id, size: SIZE, before: oldest.version });
      setMore(page.more);
      if (page.messages.length) setChunks((all) => [{ key: oldest.version, messages: page.messages }, ...all]);
    } catch (failure) {
      setError(failure);
    }
    busy.current = false;
  };

  const later = async () => {
    if (busy.current) return;
    busy.current = true;
    const last = known.current[known.current.length - 1].messages.at(-1);
    const standing = scroller.current.querySelector("article.message:last-of-type, .chunk:last-of-type article:last-child");
    const page = await get("messages", { session: id, size: SIZE, after: last.version }).finally(() => (busy.current = false));
    setChunks((all) => [...all, { key: `after ${last.version}`, messages: page.messages }]);
    setNewer(page.newer);
    requestAnimationFrame(() => standing?.scrollIntoView({ block: "end" }));
  };

  useEffect(() => {
    if (!top.current || !more) return;
    const observer = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && older(), { root: scroller.current, rootMargin: "2500px 0px" });
    observer.observe(top.current);
    return () => observer.disconnect();
  }, [more, chunks]);

  const first = link("s", id) + "?v=1";
  const toNewest = () => scroller.current.scrollTo({ top: 0 }); // the scroller begins at its lower end
  const step = (by) => () => {
    const all = [...(scroller.current?.querySelectorAll("article.message") ?? [])];
    const at = all.indexOf(document.activeElement.closest?.("article.message"));
    const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by];
    next?.focus({ preventScroll: true });
    next?.scrollIntoView({ block: "nearest" });
  };
  useKeys({
    j: step(1),
    k: step(-1),
    g: () => (setAgain(again + 1), (location.hash = first)),
    G: () => (toNewest(), (location.hash = link("s", id))),
    Enter: () => {
      if (!document.activeElement.matches("article.message")) return false;
      document.activeElement.querySelector("details > summary")?.click();
    },
  });

  const said = chunks?.some((chunk) => chunk.messages.length);
  return html`
    <main id="main" class="chat" ref=${scroller} tabindex="0" aria-label="Transcript">
      <div class="chat-in">
        <${Failed} error=${error} />
        ${chunks === null && !error ? html`<${Loading} />` : null}
        ${more || around ? html`<nav class="ends" aria-label="Ends of the conversation"><a href=${first} onClick=${() => setAgain(again + 1)}>First message</a><a href=${link("s", id)} onClick=${toNewest}>Newest message</a></nav>` : null}
        ${chunks && !said ? html`<div class="empty"><p>Nothing was said yet.</p></div>` : null}
        ${more ? html`<button class="wide" ref=${top} onClick=${older}>Older messages</button>` : said ? html`<p class="mark"><span>the beginning</span></p>` : null}
        <div>${(chunks || []).map((chunk) => html`<${Chunk} key=${chunk.key} messages=${chunk.messages} session=${id} growing=${growing.current} spent=${spent} />`)}</div>
        ${newer ? html`<button class="wide" onClick=${() => later().catch(setError)}>Newer messages</button>` : null}
        ${chunks && !newer && html`<${Asked} id=${id} seen=${chunks} answered=${refresh} />`}
        <p class="live-state dim" role="status">${live}</p>
      </div>
    </main>
  `;
}
