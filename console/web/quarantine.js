// The quarantine: groups of rejected records, the records of a group or filter, and one record with what the definition of now makes of it.
// The numbers at the top are live. Lists are read when the user asks, and after a change that was made here.

import { h, shortId, sinkLink, head, newPager, setText, setAttr, setCell, setSentence, replace, visible, timeNode } from "./dom.js";

const times = [["", "any time"], ["1h", "last hour"], ["24h", "last 24 hours"], ["168h", "last 7 days"]];
const groupFields = ["sink", "reason", "column", "mapping", "version", "target"];
const grouped = (n) => n.toLocaleString("en-US");
const recordsOf = (n) => grouped(n) + (n === 1 ? " record" : " records");

export function open(section, app) {
  let params = {};
  let shown = null; // the answer with the groups
  let record = null; // the record that is open
  let draft = null; // its body while it is edited
  let started = new Set(); // tasks of this page
  let asked = 0, askedRecord = 0; // answers to earlier requests are ignored
  let listed = []; // records in the list
  let opener = null;
  const may = { change: false }; // whether the user may change something

  // Frame

  const select = (name, label) => {
    const node = h("select", { id: "q-" + name, onchange: () => change({ [name]: node.value }) });
    return { node, label: h("label", {}, label + " ", node) };
  };
  const sink = select("sink", "Sink"), reason = select("reason", "Reason"), column = select("column", "Column"), version = select("version", "Version"), time = select("time", "Time");
  replace(time.node, ...times.map(([value, text]) => h("option", { value, text })));
  let typing = 0; // the timer behind the last key in a field
  const search = (name, label) => {
    const node = h("input", { type: "search", id: "q-" + name, autocomplete: "off", spellcheck: "false" });
    node.addEventListener("input", () => {
      clearTimeout(typing);
      typing = setTimeout(() => change({ text: text.node.value, content: content.node.value }), 300); // both: one may still wait
    });
    node.addEventListener("keydown", (e) => { if (e.key === "Escape") node.blur(); });
    return { node, label: h("label", {}, label + " ", node) };
  };
  const text = search("text", "Message has"), content = search("content", "Body or header has");

  const total = h("p", { class: "line" });
  const again = h("button", { type: "button", icon: "retry", text: "Refresh", onclick: () => load() });
  const others = h("p", { class: "line", hidden: true }, h("span"), " ", h("a", { href: "#/overview?sort=-rejected", text: "All sinks by their rejected records" }));
  const changed = h("span", { class: "muted", text: "Records were added or removed since.", hidden: true });
  const all = h("p", { class: "tablebar", hidden: true });
  const groupBody = h("tbody"), listBody = h("tbody");
  const groups = h("table", { class: "cards" },
    h("caption", { class: "unseen", text: "Groups of rejected records with one cause" }),
    h("thead", {}, h("tr", {}, ...["Records", "Sink", "Cause", "Columns", "Rejected", ""].map((t, i) =>
      head(t, i ? null : "n")))), groupBody);
  const list = h("table", { class: "cards" },
    h("caption", { class: "unseen", text: "Rejected records" }),
    h("thead", {}, h("tr", {}, ...["Rejected", "Record", "Message", "Size", ""].map((t, i) =>
      head(t, i === 3 ? "n" : null)))), listBody);
  const note = h("p", { class: "line" });
  const pager = newPager((from) => load(from));
  const listTitle = h("h2", { tabindex: "-1" });
  const more = h("button", { type: "button", text: "More records", hidden: true, onclick: () => loadList(more.dataset.next) });
  const records = h("section", { class: "records", "aria-label": "Records", hidden: true },
    h("div", { class: "tablebar" }, listTitle,
      h("button", { type: "button", text: "Close the list", onclick: () => { change({ group: "", list: "", record: "" }); groups.querySelector("button")?.focus(); } })),
    list, more);
  const view = h("section", { class: "record", "aria-label": "One record", hidden: true });
  section.append(total, others,
    h("form", { class: "tablebar filters", role: "search", "aria-label": "Filter of records", onsubmit: (e) => e.preventDefault() },
      sink.label, reason.label, column.label, version.label, time.label, text.label, content.label, again, changed),
    all, groups, pager.node, note, records, view);

  function change(some) {
    params = { ...params, ...some };
    if (!("group" in some) && !("record" in some) && !("list" in some)) params.group = params.list = params.record = "";
    app.setParams(params);
    show();
  }

  // The filter of the address, as the server takes it.
  const filter = () => {
    const f = { sink: params.sink || "", reason: params.reason || "", column: params.column || "", version: params.version || "", text: params.text || "", content: params.content || "" };
    if (params.time) f.since = params.time;
    return f;
  };

  // ofGroup is the filter of a group inside the filter of the address.
  function ofGroup(g) {
    const f = { text: params.text || "", content: params.content || "", group: true };
    for (const name of groupFields) f[name] = g[name];
    return f;
  }

  function groupOf(key) {
    try {
      const values = JSON.parse(key);
      return Array.isArray(values) && values.length === groupFields.length ? Object.fromEntries(groupFields.map((name, i) => [name, String(values[i])])) : null;
    } catch {
      return null;
    }
  }
  const keyOf = (g) => JSON.stringify(groupFields.map((name) => g[name]));

  function choices(node, values, value, any) {
    const known = values.map(([v]) => v);
    if (value && !known.includes(value)) values = [...values, [value, visible(value)]];
    const key = JSON.stringify(values);
    if (node.shownChoices !== key) {
      node.shownChoices = key;
      replace(node, h("option", { value: "", text: any }), ...values.map(([v, t]) => h("option", { value: v, text: t })));
    }
    node.value = value || "";
  }

  // Lists

  let loaded = ""; // the filter of what is shown
  function show() {
    for (const [name, { node }] of [["text", text], ["content", content]]) if (document.activeElement !== node) node.value = params[name] || "";
    time.node.value = params.time || "";
    if (JSON.stringify(filter()) !== loaded) load();
    else showList();
    showRecord();
  }

  // load reads the page of the groups after some.
  async function load(from = 0) {
    const mine = ++asked;
    loaded = JSON.stringify(filter());
    setAttr(groups, "aria-busy", "true");
    let answer;
    try {
      answer = await app.get("quarantine.groups", { ...filter(), from });
    } catch (e) {
      if (mine !== asked) return;
      loaded = "";
      app.problem(e.message);
      return;
    } finally {
      if (mine === asked) setAttr(groups, "aria-busy", null);
    }
    if (mine !== asked) return;
    app.problem(null);
    shown = answer;
    changed.hidden = true;
    showGroups();
    await showList(true);
  }

  function showGroups() {
    choices(reason.node, shown.reasons.map((v) => [v, visible(v)]), params.reason, "any");
    choices(version.node, shown.versions.map((v) => [v, v]), params.version, "any");
    version.label.hidden = !shown.versions.length && !params.version;
    choices(column.node, shown.columns.map((v) => [v, visible(v)]), params.column, "any");
    const n = shown.records;
    const least = shown.complete ? "" : "at least ";
    replace(groupBody, ...shown.groups.map(groupRow));
    pager.show(shown.from, shown.groups.length, shown.matching);
    groups.hidden = !n;
    const parts = [];
    if (!n) parts.push(Object.values(filter()).some((v) => v) ? "No record matches the filter." : "No rejected record waits. Sinks with OnReject Quarantine keep the records that they cannot map.");
    if (shown.others) parts.push(recordsOf(shown.others) + " more are in groups that are not listed: narrow the filter.");
    if (shown.moreChoices) parts.push("The filters offer the first values only: search the message for others.");
    if (!shown.complete) parts.push("There are more records than were read at once: the counts are lower bounds. Narrow the filter for exact ones.");
    setText(note, parts.join(" "));
    all.hidden = !n;
    replace(all, h("span", { text: (shown.matching === 1 ? "1 group, " : grouped(shown.matching) + " groups, ") + least + recordsOf(n) }),
      h("button", { type: "button", text: "List all", onclick: () => { change({ group: "", list: "all", record: "" }); listTitle.focus(); } }),
      ...actions({ ...filter(), since: shown.since, until: shown.until }, n, params.sink ? "of " + params.sink : "of all sinks that the filter selects"));
  }

  // actions about all records of a filter. They name the number; the server takes no more than that, and none that came later.
  function actions(f, n, what) {
    if (!may.change) return [];
    const count = Math.min(n, shown.most);
    const which = (count < n ? "the oldest " : "") + recordsOf(count) + " " + what;
    const start = async (name, more) => {
      try {
        const { task } = await app.post(name, { ...f, since: f.since || "", until: f.until, count, ...more });
        started.add(task);
        app.problem(null);
        app.say("Started.");
      } catch (e) {
        app.problem(e.message);
      }
    };
    return [
      h("button", { type: "button", icon: "replay", text: "Replay " + grouped(count) + "…", "aria-label": "Replay " + which, onclick: async () => {
        if (await app.ask({
          title: "Replay " + which + "?", action: "Replay",
          text: "Each record is mapped with the current definition. Records that pass become rows. The others stay. The replay continues if you close this page.",
        })) start("quarantine.replayall");
      } }),
      h("button", { type: "button", class: "danger", icon: "discard", text: "Discard " + grouped(count) + "…", "aria-label": "Discard " + which, onclick: async () => {
        const sure = await app.ask({ title: "Discard " + which + "?", action: "Discard", count, why: true, text: "They are deleted for good and never become rows." });
        if (sure) start("quarantine.discardall", sure);
      } }),
    ];
  }

  function cause(g) {
    return h("td", { "data-label": "Cause" }, h("span", { class: "word", text: g.target === "1" ? "target " + visible(g.reason) : visible(g.reason) || "unknown" }),
      g.column && !g.example.startsWith("column ") ? h("span", { text: " column " + visible(g.column) }) : null, h("span", { class: "message", text: ": " + g.example }));
  }

  function groupRow(g) {
    const rejected = h("td", { "data-label": "Rejected" }, timeNode(g.first), g.first === g.last ? "" : " – ", g.first === g.last ? "" : timeNode(g.last));
    const what = "of " + g.sink + ", " + (visible(g.reason) || "unknown reason") + (g.column ? ", column " + visible(g.column) : "");
    const f = { ...ofGroup(g), since: shown.since, until: shown.until };
    return h("tr", { "data-key": keyOf(g) },
      h("td", { class: "n", "data-label": "Records", text: grouped(g.count) }),
      h("th", { scope: "row" }, sinkLink(g.sink)), cause(g),
      h("td", { "data-label": "Columns" }, g.mapping ? shortId(g.mapping, "code") : "–", (g.version ? " version " + g.version + "," : "") + (g.current ? " as now" : g.mapping ? " changed since" : "")),
      rejected,
      h("td", { class: "actions" },
        h("button", { type: "button", text: "List", "aria-label": "List the records " + what, onclick: () => { change({ group: keyOf(g), list: "", record: "" }); listTitle.focus(); } }), " ",
        ...actions(f, g.count, what).flatMap((b) => [b, " "])));
  }

  let listShown = "", listAsked = 0;
  async function showList(force) {
    const which = params.group || (params.list ? "all" : "");
    records.hidden = !which;
    if (!which) {
      listShown = "";
      return;
    }
    const key = loaded + which;
    if (key === listShown && !force) return;
    listShown = key;
    const g = params.group ? groupOf(params.group) : null;
    setText(listTitle, g ? "Records of " + g.sink + ", " + (visible(g.reason) || "unknown reason") + (g.column ? ", column " + visible(g.column) : "") : "Matching records");
    listed = [];
    replace(listBody);
    await loadList("");
  }

  async function loadList(after) {
    const mine = ++listAsked;
    const g = params.group ? groupOf(params.group) : null;
    const f = g ? { ...ofGroup(g), group: "1" } : filter();
    if (g && params.time) f.since = params.time;
    more.disabled = true;
    let answer;
    try {
      answer = await app.get("quarantine.list", { ...f, after });
    } catch (e) {
      if (mine === listAsked) app.problem(e.message);
      return;
    } finally {
      if (mine === listAsked) more.disabled = false;
    }
    if (mine !== listAsked) return;
    listed.push(...answer.records);
    const first = answer.records.map(listRow);
    listBody.append(...first);
    more.dataset.next = answer.next;
    more.hidden = !answer.next;
    if (after) first[0]?.querySelector("button")?.focus();
  }

  function listRow(r) {
    const key = r.sink + ":" + r.id;
    const button = h("button", { type: "button", text: "Open", "aria-label": "Open record " + r.id, onclick: () => {
      opener = key;
      change({ record: key });
    } });
    return h("tr", { "data-key": key },
      h("td", { "data-label": "Rejected" }, timeNode(r.at)),
      h("th", { scope: "row" }, shortId(r.id, "code"), h("small", {}, " ", shortId(r.sink), (r.edited ? ", edited" + (r.editedBy ? " by " + r.editedBy : "") : "") + (r.failed ? ", replayed in vain " + grouped(r.failed) + " times" : ""))),
      h("td", { class: "message", "data-label": "Message", text: r.message }),
      h("td", { class: "n", "data-label": "Size" }, sizeOf(r.size)),
      h("td", { class: "actions" }, button));
  }

  function sizeOf(cell) {
    const node = h("span");
    setCell(node, cell);
    return node;
  }

  // One record

  async function showRecord(force, whole) {
    const key = params.record || "";
    view.hidden = !key;
    if (!key) {
      if (record) {
        record = draft = null;
        replace(view);
        [...listBody.rows].find((tr) => tr.dataset.key === opener)?.querySelector("button")?.focus();
      }
      return;
    }
    if (record && record.key === key && !force) return;
    const mine = ++askedRecord;
    const [name, id = ""] = key.split(":", 2);
    let answer;
    try {
      answer = await app.get("quarantine.record", { sink: name, id, whole: whole ? "1" : "" });
    } catch (e) {
      if (mine !== askedRecord) return;
      record = { key };
      replace(view, h("div", { class: "tablebar" }, h("h2", { tabindex: "-1", text: "Record " + visible(id) }), closeButton()),
        h("p", { text: e.status === 404 ? "This record is not in the quarantine: it was replayed or discarded, or has expired." : visible(e.message) }));
      return;
    }
    if (mine !== askedRecord) return;
    const focused = !record || record.key !== key;
    record = { key, whole, ...answer };
    draft = null;
    showOpened();
    if (focused) view.querySelector("h2").focus();
  }

  const closeButton = () => h("button", { type: "button", text: "Close the record", onclick: () => change({ record: "" }) });

  const say = h("p", { class: "line", role: "status" });

  function showOpened() {
    const r = record;
    setText(say, "");
    const facts = [["Sink", sinkLink(r.sink)], ["Rejected", timeNode(r.at)], ["Cause", (r.target === "1" ? "target " : "") + r.reason + (r.column ? ", column " + r.column : "")], ["Message", r.message],
      ["Request", r.request], ["Host", r.host], ["Client", r.client], ["Received", r.received !== null ? timeNode(r.received) : ""],
      ["Edited", r.edited ? (r.editedBy ? "by " + r.editedBy + " " : "yes ") : ""],
      ["Columns", r.mapping && r.mapping + (r.version ? ", version " + r.version : "")], ["Replays", r.failed ? grouped(r.failed) + " in vain, the last one " : ""],
      ["File", r.file ? r.file + (r.row !== null ? ", row " + grouped(r.row) : "") : ""]].filter(([, v]) => v);
    const dl = h("dl", { class: "facts" });
    for (const [term, v] of facts) {
      const dd = h("dd", {}, v);
      if (term === "Edited" && r.editedAt !== null) dd.append(timeNode(r.editedAt));
      if (term === "Replays" && r.triedAt !== null) dd.append(timeNode(r.triedAt));
      dl.append(h("dt", { text: term }), dd);
    }
    const headers = r.headers.length || r.removed.length ? h("details", {}, h("summary", { text: "Headers (" + (r.headers.length + r.moreHeaders) + ")" }),
      h("dl", { class: "facts" }, ...r.headers.flatMap(([name, v]) => [h("dt", { text: name }), h("dd", { text: v })])),
      r.moreHeaders ? h("p", { text: grouped(r.moreHeaders) + " more are not shown." }) : null,
      r.removed.length ? h("p", { text: "Never kept, because they may hold a secret: " + r.removed.join(", ") }) : null) : null;
    replace(view,
      h("div", { class: "tablebar" }, h("h2", { tabindex: "-1", text: "Record " + r.id }), closeButton()),
      dl, headers, h("div", { class: "panes" }, eventPane(), h("div", { class: "pane" }, h("h3", { text: "Row with the current definition" }), result)),
      buttons(), say);
    showResult(r);
  }

  function eventPane() {
    const r = record, body = r.body;
    const title = h("h3", { id: "q-body", text: r.file ? "Row that the target has refused" : "Event" });
    if (draft !== null) {
      const area = h("textarea", { "aria-labelledby": "q-body", rows: "14", spellcheck: "false", autocomplete: "off", autocapitalize: "off" });
      area.value = draft;
      area.addEventListener("input", () => { draft = area.value; });
      return h("div", { class: "pane" }, title, area, hiddenOnes(draft));
    }
    return h("div", { class: "pane" }, title, raw(body, title.id),
      r.came ? h("details", {}, h("summary", { text: "As received" }), raw(r.came)) : null);
  }

  function hiddenOnes(text) {
    return visible(text, true) === text ? null : h("p", { class: "line", text: "It has characters that cannot be seen or that change the direction of others. They stay unless you delete them." });
  }

  // raw shows a body as it is: it is never parsed, so that numbers and the order of keys stay as they were sent.
  function raw(body, label) {
    const parts = [h("pre", { tabindex: "0", role: "region", "aria-labelledby": label, "aria-label": label ? null : "Original body", text: visible(body.text, true) })];
    if (body.binary) parts.push(h("p", { class: "line", text: "It is not UTF-8: bytes that are not are shown as ‹FF›." }));
    if (body.rest && !record.whole) parts.push(h("button", { type: "button", text: "Show more", onclick: () => showRecord(true, true) }));
    if (body.rest && record.whole) parts.push(h("p", { class: "line", text: grouped(body.rest) + " more bytes are not shown." }));
    return h("div", {}, ...parts);
  }

  const result = h("div");
  function showResult(test) {
    const rows = test.cells.map((c) => h("tr", {}, h("th", { scope: "row", text: c.column }), h("td", { text: c.type, "data-label": "Type" }),
      h("td", { class: "message", "data-label": "Value" }, c.error ? h("strong", { class: "bad", text: "✕ " + c.error }) : c.null ? h("em", { text: "NULL" }) : c.value)));
    replace(result,
      h("p", { class: test.passes ? "good" : "bad", role: "status", text: test.problem || (test.passes ? "✓ A replay would store it." : "✕ A replay would reject it again.") }),
      rows.length ? h("table", { class: "cards" }, h("caption", { class: "unseen", text: "Cells of the row" }),
        h("thead", {}, h("tr", {}, ...["Column", "Type", "Value"].map((t) => h("th", { scope: "col", text: t })))), h("tbody", {}, ...rows)) : null);
  }

  // Text areas keep line feeds alone: line breaks of another kind are put back.
  let windows = false;
  const edited = () => (windows ? draft.replace(/\n/g, "\r\n") : draft);

  async function edit() {
    if (record.body.rest && !record.whole) await showRecord(true, true);
    const { body } = record;
    if (!body || body.rest || body.binary) {
      setText(say, body?.binary ? "It is not UTF-8, so a text field would change it. Use forebay quarantine edit." : "It is too long for a text field. Use forebay quarantine edit.");
      return;
    }
    windows = body.text.includes("\r\n");
    const plain = windows ? body.text.replaceAll("\r\n", "\n") : body.text;
    if (plain.includes("\r") || (windows && /[^\r]\n|^\n/.test(body.text))) {
      setText(say, "It has line breaks of several kinds, which a text field would change. Use forebay quarantine edit.");
      return;
    }
    draft = plain;
    showOpened();
    view.querySelector("textarea").focus();
  }

  // act runs a request about the open record and shows what failed.
  async function act(fn) {
    for (const b of view.querySelectorAll(".choices button")) b.disabled = true;
    try {
      await fn(record);
    } catch (e) {
      setText(say, e.status === 409 && /changed|another/i.test(e.message) ? "The record was changed meanwhile. Close it and open it again: " + visible(e.message) : visible(e.message));
    } finally {
      for (const b of view.querySelectorAll(".choices button")) b.disabled = false;
    }
  }
  const ref = (r) => ({ sink: r.sink, id: r.id });

  async function replay(r) {
    const res = await app.post("quarantine.replay", ref(r));
    load();
    if (res.rejected) await showRecord(true, r.whole);
    const text = res.replayed ? "The record is a row now." : res.rejected ? "It was rejected again." : "It was already gone.";
    if (res.rejected) setText(say, text); // which is announced too
    else {
      replace(view, h("div", { class: "tablebar" }, h("h2", { tabindex: "-1", text: "Record " + r.id }), closeButton()), h("p", { text }));
      view.querySelector("h2").focus();
      app.say(text);
    }
  }

  function buttons() {
    if (draft !== null) {
      const save = (r) => app.post("quarantine.edit", { ...ref(r), revision: r.revision, body: edited() });
      return h("p", { class: "choices left" },
        h("button", { type: "button", text: "Test", onclick: () => act(async (r) => showResult(await app.post("quarantine.test", { ...ref(r), body: edited() }))) }),
        may.change && h("button", { type: "button", text: "Save", onclick: () => act(async (r) => {
          await save(r);
          await showRecord(true, r.whole);
          setText(say, "Saved. It is a row when it is replayed.");
        }) }),
        may.change && h("button", { type: "button", text: "Save and replay", onclick: () => act(async (r) => { await save(r); await replay(r); }) }),
        h("button", { type: "button", text: "Cancel", onclick: () => { draft = null; showOpened(); view.querySelector(".choices button")?.focus(); } }));
    }
    return h("p", { class: "choices left" },
      h("button", { type: "button", icon: "edit", text: may.change ? "Edit" : "Try another body", onclick: () => edit() }),
      may.change && h("button", { type: "button", icon: "replay", text: "Replay", onclick: () => act(replay) }),
      may.change && h("button", { type: "button", class: "danger", icon: "discard", text: "Discard…", onclick: async () => {
        const sure = await app.ask({ title: "Discard record " + record.id + "?", action: "Discard", count: 1, why: true, text: "It is deleted for good and never becomes a row." });
        if (!sure) return;
        act(async (r) => {
          await app.post("quarantine.discard", { ...ref(r), ...sure });
          load();
          change({ record: "" });
          app.say("The record is discarded.");
        });
      } }));
  }

  return {
    query: () => ({}),

    enter(path, now) {
      params = { ...now };
      show();
    },

    update({ head, rows, order, tasks }) {
      if (!head) return;
      // The rights are known with the first message only.
      if (may.change !== app.may("changes")) {
        may.change = app.may("changes");
        if (shown) showGroups();
        if (record?.body && draft === null) showOpened();
      }
      const [text, exact] = Array.isArray(head.records) ? head.records : [head.records, null];
      const one = rows.get(params.sink) || (order.length === 1 ? rows.get(order[0]) : null);
      const parts = [text + (text === "1" ? " record" : " records") + " in " + grouped(head.sinks) + (head.sinks === 1 ? " sink" : " sinks")];
      const bytes = (c) => (Array.isArray(c) ? c[0] : c);
      if (!one) parts.push(", " + bytes(head.bytes));
      else {
        parts.push(", of " + (params.sink || order[0]) + " " + bytes(one[1]) + " of " + bytes(one[2]));
        if (one[4] !== null) parts.push(", the oldest is kept until ", one[4]);
      }
      parts.push(".");
      setSentence(total, parts);
      setAttr(total, "title", exact);
      others.hidden = head.sinks <= order.length;
      setText(others.firstElementChild, grouped(head.sinks - order.length) + " sinks with fewer records are not in the list of sinks.");
      if (document.activeElement !== sink.node) choices(sink.node, order.map((key) => [key, key + " (" + bytes(rows.get(key)[0]) + ")"]), params.sink, "any");
      const stale = shown && head.changes > shown.changes;
      changed.hidden = !stale;
      // What this page has started is shown when it has ended, unless somebody edits a record.
      for (const t of tasks || []) {
        if (t.state === "running" || !started.has(t.id)) continue;
        started.delete(t.id);
        if (draft === null) load();
      }
    },

    leave() { clearTimeout(typing); },
  };
}
