// The calls that wait for a person: what would run, and the command that answers, or buttons.
import { html, useEffect, useRef, useState, link, Copy, Failed, moment, visible } from "./ui.js";
import { get, post } from "./api.js";
import { Given } from "./message.js";

/** The calls of a session that wait; they are asked for again when `seen` changes. */
export function Asked({ id, seen, answered }) {
  const [found, setFound] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => {
    const control = new AbortController();
    get("asked", { session: id }, control.signal).then(setFound, (failure) => failure.name !== "AbortError" && setError(failure));
    return () => control.abort();
  }, [id, seen]);
  if (error) return html`<${Failed} error=${error} />`;
  return (found?.calls || []).map((call) => html`<${Waiting} key=${call.part} id=${id} call=${call} answers=${found.answers} answered=${answered} />`);
}

/** Act on a click, but not on the second one of a double click: another button may be there by then. */
const once = (act) => (event) => event.detail < 2 && act();

function Waiting({ id, call, answers, answered }) {
  const [who, setWho] = useState(localStorage.getItem("by") || "");
  const [reason, setReason] = useState("");
  const [edited, setEdited] = useState(null);
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const name = useRef(null);
  const say = async (answer) => {
    if (!who.trim()) return name.current.focus(), setError(new Error("Say who answers: it is recorded."));
    setBusy(true);
    setError(null);
    localStorage.setItem("by", who);
    try {
      await post("answer", { session: id, part: call.part, token: call.token, by: who, answer, reason, ...(answer === "edit" ? { arguments: edited } : {}) });
      await answered();
    } catch (failure) {
      setError(failure);
    }
    setBusy(false);
  };
  return html`
    <section class="asked-call" aria-label=${`${call.tool} waits for a person`}>
      <h2><span class="tool-name">${call.tool}</span> waits for a person <span class="dim small">since ${moment(call.time)}</span></h2>
      ${call.reason && html`<p dir="auto">${call.reason}</p>`}
      <${Given} text=${call.arguments} />
      ${call.session ? html`<p>It goes on when the calls of <a href=${link("s", call.session)}>its sub-session</a> are answered.</p>` : answers
        ? html`<div class="answer">
            <label>who answers <input ref=${name} value=${who} onInput=${(event) => setWho(event.target.value)} /></label>
            <label>reason of a denial <input value=${reason} onInput=${(event) => setReason(event.target.value)} /></label>
            ${edited !== null && html`<label for=${`edit-${call.part}`}>allowed with these arguments, as JSON</label><textarea id=${`edit-${call.part}`} dir="ltr" rows="6" value=${edited} onInput=${(event) => setEdited(event.target.value)}></textarea>`}
            <p><button disabled=${busy} onClick=${once(() => say(edited === null ? "allow" : "edit"))}>Allow</button> <button disabled=${busy} onClick=${once(() => say("deny"))}>Deny</button> <button onClick=${once(() => setEdited(edited === null ? call.arguments : null))}>${edited === null ? "Change the arguments" : "Leave the arguments"}</button></p>
          </div>`
        : call.commands.length
          ? html`<p class="dim small">Answer in a terminal, with your name; a loop then goes on with the session:</p>
              ${call.commands.map((command) => html`<p class="command"><code dir="ltr">${visible(command)}</code> <${Copy} text=${command} what="the command" /></p>`)}`
          : html`<p class="dim small">No command opens this store: the program that has it answers, with <code>session.answer_call</code>.</p>`}
      <${Failed} error=${error} />
    </section>
  `;
}
