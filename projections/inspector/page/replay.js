// A session played again at its recorded pace, delta by delta; long pauses are cut short.
import { html, useEffect, useRef, useState, useKeys, Failed, count, moment } from "./ui.js";
import { get } from "./api.js";
import { jumpWords } from "./versions.js";

const SPEEDS = [0.5, 1, 2, 4, 8, 16, 64];
const PAUSE = 1500;
const KEPT = 60;

export function Replay({ id, info, query }) {
  const newest = info?.version || 1;
  const [playing, setPlaying] = useState(false);
  const [speed, setSpeed] = useState(1);
  const [at, setAt] = useState({ version: Number(query.get("from")) || 0, time: 0 });
  const [error, setError] = useState(null);
  const stage = useRef(null);
  const player = useRef(null);
  player.current ??= new Player(id, setAt, setPlaying, setError);
  useEffect(() => {
    player.current.stage = stage.current;
    player.current.start(at.version);
    return () => player.current.stop();
  }, [id]);
  useEffect(() => void (player.current.speed = speed), [speed]);
  const toggle = () => (player.current.playing ? player.current.pause() : player.current.play());
  useKeys({ " ": (event) => (event.target.closest("button, summary") ? false : toggle()), ArrowRight: (event) => (event.target.type === "range" ? false : player.current.once()) });
  const seek = (version) => player.current.start(version);
  return html`
    <main id="main" class="replay" tabindex="-1">
      <div class="controls" role="group" aria-label="Replay">
        <button class="play" onClick=${toggle} aria-label=${playing ? "Pause" : "Play"} title="Play or pause (Space)"><svg viewBox="0 0 20 20" width="18" height="18" aria-hidden="true"><path fill="currentColor" d=${playing ? "M4 3h4v14H4zM12 3h4v14h-4z" : "M5 3l12 7-12 7z"} /></svg></button>
        <input type="range" min="0" max=${newest} value=${at.version} aria-label="Version" aria-valuetext=${`version ${at.version} of ${newest}`} onInput=${(event) => seek(Number(event.target.value))} />
        <label>Speed <select onChange=${(event) => setSpeed(Number(event.target.value))}>${SPEEDS.map((each) => html`<option value=${each} selected=${each === speed}>${each}×</option>`)}</select></label>
        <span class="dim clock">v${count(at.version)} of ${count(newest)}${at.time ? ` · ${moment(at.time, { seconds: true })}` : ""}</span>
      </div>
      <${Failed} error=${error} />
      <div class="stage" ref=${stage} tabindex="0" role="log" aria-live="off" aria-label="What was said"></div>
    </main>
  `;
}

class Player {
  constructor(session, moved, toggled, failed) {
    Object.assign(this, { session, moved, toggled, failed, speed: 1, playing: false, run: 0 });
  }

  /** Begin behind a version, with an empty stage. */
  start(version) {
    clearTimeout(this.timer);
    this.run += 1;
    Object.assign(this, { after: version, scenes: [], parts: new Map(), messages: new Map(), last: 0, ended: false, fetching: null });
    this.stage.replaceChildren();
    this.moved({ version, time: 0 });
    if (this.playing) this.next();
    else this.fill().catch(this.failed);
  }
  stop() {
    clearTimeout(this.timer);
    this.run += 1;
    this.playing = false;
  }
  play() {
    this.playing = true;
    this.toggled(true);
    if (this.ended && !this.scenes.length) this.start(0);
    else this.next();
  }
  pause() {
    this.playing = false;
    clearTimeout(this.timer);
    this.toggled(false);
  }

  /** Fetch the next page of scenes unless there are enough. */
  fill() {
    if (this.scenes.length > 200 || this.ended) return Promise.resolve();
    const run = this.run;
    this.fetching ??= get("replay", { session: this.session, after: this.after, limit: 1000 }).then((page) => {
      if (run !== this.run) return;
      this.fetching = null;
      this.scenes.push(...page.scenes);
      this.ended = page.last >= page.newest;
      this.after = page.last;
    });
    return this.fetching;
  }

  async next() {
    const run = this.run;
    try {
      if (!this.scenes.length) await this.fill();
      else if (this.scenes.length < 200) void this.fill().catch(this.failed);
    } catch (error) {
      return this.failed(error);
    }
    if (run !== this.run || !this.playing) return;
    if (!this.scenes.length) return this.ended ? this.pause() : this.next();
    const wait = this.last ? Math.min(PAUSE, Math.max(0, this.scenes[0].t - this.last)) / this.speed : 0;
    this.timer = setTimeout(() => {
      // everything that falls into one frame is shown together
      const end = this.scenes[0].t + 16 * this.speed;
      do this.show(this.scenes.shift());
      while (this.scenes.length && this.scenes[0].t <= end);
      this.next();
    }, wait);
  }

  /** Show one scene, while the replay stands. */
  async once() {
    this.pause();
    await this.fill();
    if (this.scenes.length) this.show(this.scenes.shift());
  }

  show(scene) {
    this.last = scene.t;
    this.moved({ version: scene.v, time: scene.t });
    this.acts[scene.op]?.call(this, scene);
    this.stage.scrollTop = this.stage.scrollHeight;
  }
  get acts() {
    const { user, assistant, part, delta, end, running, done, fail, note } = this;
    return { user, assistant, part, delta, end, run: running, done, fail, note };
  }
  user(scene) {
    this.begin(scene.message, "user", "User");
  }
  assistant(scene) {
    this.begin(scene.message, "assistant", scene.summary ? "Summary" : "Assistant", scene.model);
  }
  begin(message, role, who, model = "") {
    const box = element("article", `message ${role}`);
    const head = element("header", "", element("b", "", who), element("span", "dim model", model));
    const parts = element("div", "parts");
    box.append(head, parts);
    this.messages.set(message, parts);
    this.stage.append(box);
    while (this.stage.childElementCount > KEPT) this.stage.firstElementChild.remove();
  }
  /** A text that came as a whole is Markdown at once; one that streams is once it ends. */
  part(scene) {
    if (!this.messages.has(scene.message)) this.begin(scene.message, "assistant", "Assistant");
    const text = element("span", "stream", scene.text || "");
    const box = element("div", `part ${scene.kind}`);
    box.dir = scene.tool ? "ltr" : "auto";
    if (scene.tool) box.append(element("span", "tool-name", scene.tool), " ");
    if (scene.kind === "reasoning") box.append(element("span", "dim small", "thinking "));
    const prose = element("div", "prose");
    box.append(prose, text);
    const found = { box, text, prose };
    this.parts.set(scene.part, found);
    if (scene.html) rendered(found, scene.html);
    this.messages.get(scene.message).append(box);
  }
  delta(scene) {
    this.parts.get(scene.part)?.text.append(scene.text);
  }
  /** Show a text that has ended as the Markdown that it is. */
  end(scene) {
    const found = this.parts.get(scene.part);
    if (!found?.text.textContent) return;
    get("part", { session: this.session, part: scene.part, at: scene.v }).then((answer) => answer.html && rendered(found, answer.html), () => {});
  }
  running(scene) {
    const found = this.parts.get(scene.part);
    if (found) found.text.textContent = scene.title || scene.gist;
    found?.box.classList.add("running");
  }
  done(scene) {
    const found = this.parts.get(scene.part);
    found?.box.classList.remove("running");
    found?.box.append(element("pre", "output", scene.text + (scene.size > scene.text.length ? ` … (${count(scene.size)} characters)` : "")));
  }
  fail(scene) {
    this.parts.get(scene.part)?.box.append(element("pre", "output bad", scene.text));
  }
  note(scene) {
    this.stage.append(element("p", `mark jump ${scene.kind}`, element("span", "", jumpWords(scene))));
  }
}

/** Set the HTML that the server rendered and cleaned; nothing else is ever set as HTML. */
function rendered(found, markup) {
  found.prose.innerHTML = markup;
  found.text.replaceChildren();
}

function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children.filter((child) => child !== ""));
  return made;
}
