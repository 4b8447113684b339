// Small pieces that all views share: words for numbers and times, badges, loading, errors.
import htm from "./vendor/htm.js";
import { h } from "./vendor/preact.js";
import { useEffect, useRef, useState } from "./vendor/hooks.js";

export { Component, render } from "./vendor/preact.js";
export { useEffect, useMemo, useRef, useState } from "./vendor/hooks.js";
export const html = htm.bind(h);

const number = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const tiny = new Intl.NumberFormat("en", { maximumSignificantDigits: 2 });
const day = new Intl.DateTimeFormat("en", { dateStyle: "medium" });
const clock = new Intl.DateTimeFormat("en", { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

export const count = (value) => (value === null || value === undefined ? "–" : number.format(value));
export const compact = (value) => (value === null || value === undefined ? "–" : value < 10000 ? number.format(value) : short.format(value));
export const signed = (value) => (value < 0 ? `−${number.format(-value)}` : `+${number.format(value)}`);
export const counted = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
export const dollars = (cost) => {
  if (cost === null || cost === undefined) return "";
  const value = Number(cost);
  if (value >= 1000) return `$${number.format(Math.round(value))}`;
  return value && value < 0.0001 ? `$${tiny.format(value)}` : `$${value.toFixed(value && value < 0.1 ? 4 : 2)}`;
};

/** A cost as it was recorded; with ≈ where list prices stand in for a part, ≥ where a part is not known. */
export const Cost = ({ cost, estimate, unknown = 0, waiting = false, none = "–" }) => {
  const [recorded, estimated] = [cost, estimate].map((amount) => amount !== null && amount !== undefined);
  if (!recorded && !estimated) return waiting && unknown ? "…" : none;
  const why = [estimated && "estimated by list prices where no cost was recorded", unknown && `not known for ${counted(unknown, "call")}`].filter(Boolean);
  const text = `${unknown ? "≥ " : estimated ? "≈ " : ""}${dollars(Number(cost || 0) + Number(estimate || 0))}`;
  return why.length ? html`<span title=${why.join("; ")}>${text}</span>` : text;
};

/** What a session cost, and what it cost with its sub-sessions, if it has some. */
export const Costs = ({ info }) => html`<${Cost} ...${info} none=${info.calls ? "cost not known" : "no own cost"} />${info.together && html`, <${Cost} ...${info.together} none="not known" /> with sub-sessions`}`;

const DAY = 86400000;

/** A moment: the clock today, else the day; imports without a time say so. */
export function moment(time, { seconds = false } = {}) {
  if (!time || time < DAY) return "no time";
  const date = new Date(time);
  const today = new Date().toDateString() === date.toDateString();
  const at = seconds ? clock.format(date) : clock.format(date).slice(0, 5);
  return today ? at : `${day.format(date)}, ${at}`;
}

export function ago(time) {
  if (!time || time < DAY) return "no time";
  const seconds = (Date.now() - time) / 1000;
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  if (seconds < 86400 * 14) return counted(Math.floor(seconds / 86400), "day") + " ago";
  return day.format(new Date(time));
}

/** How long something took: the two largest units, and tenths of a short time. */
export function duration(milliseconds) {
  if (milliseconds < 1000) return `${milliseconds} ms`;
  if (milliseconds < 59950) return `${(milliseconds / 1000).toFixed(1)} s`;
  const seconds = Math.round(milliseconds / 1000);
  const hours = Math.floor(Math.round(seconds / 60) / 60);
  const [large, small] = seconds < 3600 ? [[Math.floor(seconds / 60), "min"], [seconds % 60, "s"]] : [[hours, "h"], [Math.round(seconds / 60) - 60 * hours, "min"]];
  return [large, small].filter(([number]) => number).map((unit) => unit.join(" ")).join(" ");
}

/** Short words for why the model does not see something as it was said. */
export const REASONS = {
  shown: "",
  "shown-as-text": "shown as a fixed text",
  "media-replaced": "refused by a provider, and named instead",
  cleared: "result cleared",
  "arguments-cleared": "arguments cleared",
  "call-cleared": "result and arguments cleared",
  "media-cleared": "cleared, and named instead",
  "reasoning-cleared": "thought cleared",
  "reasoning-emptied": "thought cleared",
  interrupted: "shown as interrupted",
  asked: "waits for a person",
  redacted: "redacted",
  covered: "covered by a compaction",
  "rolled-back": "rolled back",
  removed: "removed",
  later: "later than this version",
  "message-removed": "message removed",
  "message-failed": "failed, nothing to show",
  "message-unfinished": "unfinished, nothing to show yet",
  "compaction-not-in-force": "summary not in force",
  waiting: "queued",
  ignored: "for people only",
  empty: "empty",
  "file-as-text": "file sent as text elsewhere",
  "never-sent": "never sent",
  carried: "carried beside the summary",
};

export const link = (...parts) => "#/" + parts.filter((part) => part !== "").map(encodeURIComponent).join("/");

export const State = ({ state }) =>
  state === "running" || state === "unfinished" || state === "asked"
    ? html`<span class="badge ${state}"><span class="dot" aria-hidden="true"></span>${state}</span>`
    : null;

/** A button that copies a text, or what a function gives. */
export function Copy({ text, what, label = "Copy" }) {
  const [done, setDone] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(typeof text === "function" ? await text() : text);
      setDone("Copied");
    } catch (error) {
      setDone(`Not copied: ${error.message}`);
    }
    setTimeout(() => setDone(""), 2000);
  };
  return html`<button class="copy" onClick=${copy} aria-label=${`${label}: ${what}`}>${done || label}</button>`;
}

/** The sentence of an error, with what stands between backticks as code. */
export const Failed = ({ error }) => (error ? html`<p class="failed" role="alert">${(error.message || String(error)).split("`").map((words, place) => (place % 2 ? html`<code>${words}</code>` : words))}</p>` : null);

/** Sessions of which something is damaged, so that a list or a sum lacks it. */
export const Damaged = ({ sessions = [], lack }) =>
  sessions.length ? html`<p class="bad-ink" role="status">Damaged, and ${lack}: something of ${sessions.slice(0, 5).map((id, index) => html`${index ? ", " : ""}<a href=${link("s", id)}><bdi>${id}</bdi></a>`)}${sessions.length > 5 ? ` and of ${counted(sessions.length - 5, "other session")}` : ""}. <code>eventlog verify</code> lists all damage.</p>` : null;

export const Loading = ({ what = "Loading" }) => html`<p class="loading" role="status"><span class="spinner" aria-hidden="true"></span>${what}…</p>`;

/** Run an asynchronous function again when what it depends on changes: {value, error, loading}. */
export function useLoaded(load, depends) {
  const [found, set] = useState({ value: null, error: null, loading: true });
  useEffect(() => {
    const control = new AbortController();
    set((before) => ({ ...before, loading: true, error: null }));
    load(control.signal).then(
      (value) => set({ value, error: null, loading: false }),
      (error) => error.name !== "AbortError" && set((before) => ({ ...before, error, loading: false })),
    );
    return () => control.abort();
  }, depends);
  return found;
}

/** Call a function on a key that no field takes; `keys` maps names of keys to functions. */
export function useKeys(keys) {
  const current = useRef(keys);
  current.current = keys;
  useEffect(() => {
    const pressed = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const field = event.target.closest?.("input, textarea, select, [contenteditable]");
      if (field && !(field.type === "range" && event.key.length === 1)) return;
      const action = current.current[event.key];
      if (action && action(event) !== false) event.preventDefault();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

const HARMFUL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\ufff9-\ufffb\ufeff]/g;
const sign = (code) => (code < 0x20 ? String.fromCharCode(0x2400 + code) : code === 0x7f ? "\u2421" : `\u27e8U+${code.toString(16).toUpperCase().padStart(4, "0")}\u27e9`);

/** Text with control characters as visible signs, those of the server: for what it could not make so. */
export const visible = (text) => text.replace(HARMFUL, (found) => sign(found.charCodeAt(0)));

/** HTML that the server rendered and cleaned; nothing else is ever set as HTML. */
export const Rendered = ({ html: markup, class: name = "" }) => html`<div class="prose ${name}" dir="auto" dangerouslySetInnerHTML=${{ __html: markup }}></div>`;
