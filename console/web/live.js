// The connection: server-sent events, or snapshots where streams do not pass.

const firstEvent = 5000; // a proxy that buffers holds events back longer than this
const pollEvery = 2000;
const fullEvery = 10000; // when all places of viewers are taken
const streamAgain = 60000; // while polling, a stream is tried so often

const jitter = (ms) => ms * (0.75 + Math.random() / 2);

export class Live {
  // query returns the parameters of what is shown. onHello and onMessage get messages, onMode a word: live, poll, full, away, paused,
  // signin, closed or old, and a time for away.
  constructor({ query, onHello, onMessage, onMode }) {
    Object.assign(this, { query, onHello, onMessage, onMode });
    this.run = 0; // of the newest connection; callbacks of earlier ones are ignored
    this.failures = 0;
    this.paused = false;
    this.polling = 0; // until then no stream is tried
    this.lastAt = Date.now();
    this.known = null; // {query, etag} of the snapshot that is shown, while nothing else has changed the page
    document.addEventListener("visibilitychange", () => this.restart());
  }

  // restart opens a new connection, with the query of now. The page may have been emptied, so everything is sent again.
  restart() {
    this.known = null;
    this.again();
  }

  again() {
    this.stop();
    if (this.paused || document.hidden) return;
    if (Date.now() < this.polling) this.poll(this.run);
    else this.stream(this.run);
  }

  pause(on) {
    this.paused = on;
    this.restart();
    if (on) this.onMode("paused");
  }

  stop() {
    this.run++;
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }

  stream(run) {
    const source = new EventSource("stream?" + this.query());
    this.source = source;
    this.timer = setTimeout(() => this.fallBack(run), firstEvent);
    const on = (name, fn) =>
      source.addEventListener(name, (e) => {
        if (run !== this.run) return;
        clearTimeout(this.timer);
        fn(JSON.parse(e.data));
      });
    on("hello", (m) => this.onHello(m));
    on("full", (m) => this.got(m, true, "live"));
    on("state", (m) => this.got({ top: m }, false, "live"));
    on("delta", (m) => this.got(m, false, "live"));
    on("bye", (m) => {
      this.stop();
      if (m.why === "closed") this.onMode("closed");
      this.later(m.why === "closed" ? fullEvery : 500, () => this.poll(this.run));
    });
    // The status is hidden from scripts: a snapshot tells it.
    source.addEventListener("error", () => run === this.run && this.fallBack(run));
  }

  fallBack(run) {
    if (run !== this.run) return;
    this.stop();
    this.poll(this.run, true);
  }

  later(ms, fn) {
    const run = this.run;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => run === this.run && fn(), ms);
  }

  got(m, whole, mode) {
    if (mode === "live") this.known = null;
    this.failures = 0;
    this.awaySince = null;
    this.lastAt = Date.now();
    this.onMessage(m, whole);
    this.onMode(mode);
  }

  // poll asks for a snapshot. lost is set when a stream has just broken.
  async poll(run, lost) {
    let response, body;
    const query = this.query();
    const headers = this.known?.query === query ? { "If-None-Match": this.known.etag } : {};
    try {
      response = await fetch("snapshot?" + query, { headers, cache: "no-store" });
      if (response.ok) body = await response.json();
    } catch {
      response = null;
    }
    if (run !== this.run) return;
    if (response && (response.status === 401 || response.status === 403)) {
      this.onMode("signin");
      return; // it would be refused forever
    }
    if (!response || !(response.ok || response.status === 304)) {
      this.awaySince ||= Date.now();
      this.failures++;
      this.onMode("away", this.awaySince);
      this.later(jitter(Math.min(1000 * this.failures, 3000)), () => this.poll(this.run));
      return;
    }
    const wasAway = this.awaySince;
    this.lastAt = Date.now();
    if (response.status !== 304) {
      this.onHello(body.hello);
      this.got(body.full, true, "poll");
      this.known = { query, etag: response.headers.get("ETag") };
    } else {
      this.failures = 0;
      this.awaySince = null;
      this.onMode("poll");
    }
    if (lost) {
      // The server answers, but the stream broke: twice in a row means that streams do not pass.
      this.broken = (this.broken || 0) + 1;
      if (this.broken >= 2 && Date.now() - (this.brokenAt || 0) < 30000) {
        const full = await this.isFull();
        if (run !== this.run) return;
        this.polling = Date.now() + (full ? fullEvery : streamAgain);
        if (full) this.onMode("full");
        this.later(full ? fullEvery : pollEvery, () => this.again());
        return;
      }
      this.brokenAt = Date.now();
      this.later(jitter(500), () => this.again());
      return;
    }
    this.later(wasAway ? jitter(200) : pollEvery, () => this.again());
  }

  // isFull asks whether the stream is refused because all places are taken.
  async isFull() {
    const end = new AbortController();
    try {
      const response = await fetch("stream?" + this.query(), { signal: end.signal });
      return response.status === 503;
    } catch {
      return false;
    } finally {
      end.abort();
    }
  }
}
