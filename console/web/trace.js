// Trace: what became of a request with an id, of a call with a key, of the calls of a trace, and rows that wait and have a value.

import { h, setSentence, setText, sinkLink, replace, visible, timeNode } from "./dom.js";

export function open(section, app) {
  const names = h("datalist", { id: "trace-sources" });
  const source = h("input", { id: "trace-source", type: "search", list: "trace-sources", autocomplete: "off", spellcheck: "false", placeholder: "all sources" });
  const text = h("input", { id: "trace-text", type: "search", autocomplete: "off", spellcheck: "false", required: true, size: "36" });
  const button = h("button", { icon: "find", text: "Find" });
  section.append(h("form", { class: "tablebar", role: "search", "aria-label": "Trace", onsubmit: (e) => { e.preventDefault(); find(); } },
    h("h2", { text: "Trace" }), h("label", { for: "trace-text", text: "Request id, trace id, key or value" }), text,
    h("label", { for: "trace-source", text: "Source" }), source, names, button));
  const note = h("p", { role: "status", text: "Follow what a request has stored by its X-Request-Id, Idempotency-Key or trace id, or find rows on their way by a value of a cell." });
  const kept = h("p", { class: "muted" });
  const found = h("div");
  section.append(note, found, kept);
  let asked = 0;
  let asking = 0;

  source.addEventListener("input", () => { clearTimeout(asking); asking = setTimeout(offer, 250); });

  async function offer() {
    try {
      const got = await app.get("trace.sources", { filter: source.value.trim() });
      replace(names, ...(got.sources || []).map((value) => h("option", { value })));
    } catch (e) { app.problem(e.message); }
  }

  async function find() {
    const mine = ++asked;
    app.problem(null);
    setText(note, "Searching…");
    replace(found);
    let got;
    try {
      got = await app.post("trace.find", { Source: source.value.trim(), Text: text.value });
    } catch (e) {
      if (mine === asked) setText(note, e.message);
      return;
    }
    if (mine !== asked) return;
    const summary = h("span");
    setSentence(summary, got.searched);
    replace(note, (got.calls.length ? "" : "No call with this key or trace id is known. ") + (got.rows.length ? "" : "No waiting row has this value. "), summary);
    if (got.moreCalls) note.append(" These are the first " + got.calls.length + " calls. Name the source for others.");
    setSentence(kept, got.kept);
    replace(found, ...requestNodes(got.request), ...got.calls.map(callNode), ...got.rows.map(rowNode));
    section.dataset.finds = Number(section.dataset.finds || 0) + 1;
  }

  function stepNode(s) {
    const words = h("span");
    setSentence(words, s.text);
    return h("li", {}, h("strong", { text: s.name }), s.at === null ? null : " ", s.at === null ? null : timeNode(s.at), " ", words);
  }

  function requestNodes(r) {
    if (!r) return [];
    const words = h("p");
    setSentence(words, r.text);
    return [words, ...r.sinks.map((s) => h("section", { class: "pane", "aria-label": "Rows of that time at " + visible(s.sink) },
      h("h3", {}, "Rows of that time at ", sinkLink(s.sink)), h("ol", { class: "steps" }, ...s.steps.map(stepNode))))];
  }

  function callNode(c) {
    return h("section", { class: "pane", "aria-label": "Call at " + visible(c.sink) }, h("h3", {}, "Call at ", sinkLink(c.sink)), h("ol", { class: "steps" }, ...c.steps.map(stepNode)),
      c.quarantined ? h("p", {}, h("a", { href: "#/quarantine?" + new URLSearchParams({ sink: c.sink }), text: "Quarantine of this sink" })) : null);
  }

  function rowNode(r) {
    const value = (c) => (c.t === null ? h("em", { text: "NULL" }) : c.t === "" ? h("em", { text: "empty text" }) : h("code", { text: visible(c.t, true) + (c.cut ? "…" : "") }));
    return h("section", { class: "pane", "aria-label": "Row of " + visible(r.sink) }, h("h3", {}, "Row of ", sinkLink(r.sink)), h("ol", { class: "steps" }, ...r.steps.map(stepNode)),
      h("dl", { class: "facts" }, ...r.cells.flatMap((c, i) => [h("dt", { text: visible(r.columns[i] ?? "") }), h("dd", {}, value(c))])));
  }

  return {
    query: () => ({}),
    enter(parts) {
      if (parts[0]) source.value = parts[0];
      offer();
    },
  };
}
