// Follows a session: text that streams in goes to `growing`, any other change asks for a refresh.

const SOON = 120;
const AGAIN = 3000;

/** Follow a session from a version that is shown on, until the function that is returned is called. */
export function follow(session, shown, growing, refresh, tell) {
  let source = null;
  let timer = null;
  let stopped = false;
  const texts = new Map();
  const later = () => {
    timer ??= setTimeout(() => {
      timer = null;
      if (!stopped) refresh().catch(() => {});
    }, SOON);
  };
  const take = (part) => {
    for (const field of ["text", "input"]) texts.set(`${part.id} ${field}`, part[field] ?? "");
    if (part.open) growing.set(part.id, part.text || part.input || "");
  };
  const apply = (patch) => {
    if (patch.reset) {
      texts.clear();
      for (const message of patch.reset.messages) message.parts.forEach(take);
      return true;
    }
    if (patch.message) {
      (patch.message.parts || []).forEach(take);
      return true;
    }
    if (patch.set) {
      const { part, set } = patch;
      if (patch.of) take(set);
      for (const field of ["text", "input"]) if (field in set) texts.set(`${part} ${field}`, set[field]);
      return true;
    }
    if (patch.field) {
      const key = `${patch.part} ${patch.field}`;
      const text = texts.get(key) ?? "";
      if ("end" in patch) texts.set(key, text.slice(0, patch.end));
      else if (text.length < patch.at) throw new Error("text is missing");
      else texts.set(key, text + patch.text.slice(text.length - patch.at));
      growing.set(patch.part, texts.get(key));
      return false;
    }
    return true;
  };
  let first = true;
  const open = () => {
    source = new EventSource(`live/${encodeURIComponent(session)}/live?limit=2`);
    source.onopen = () => tell("");
    source.onerror = () => {
      tell(stopped ? "" : "The connection is lost; trying again …");
      // an answer but 200, such as 503 of a store that is rewritten, ends it
      if (source.readyState === EventSource.CLOSED) setTimeout(() => stopped || open(), AGAIN);
    };
    source.onmessage = (event) => {
      try {
        const patches = JSON.parse(event.data);
        if (patches.some((patch) => patch.gone)) {
          stopped = true;
          source.close();
          tell("The session was erased.");
        }
        const changed = patches.map(apply).some(Boolean);
        if (changed && (!first || parseInt(event.lastEventId, 10) > shown)) later();
        first = false;
      } catch {
        source.close();
        if (!stopped) open();
      }
    };
  };
  open();
  return () => {
    stopped = true;
    clearTimeout(timer);
    source.close();
  };
}
