// The playground: an event, columns that nobody has saved, and the row that they make of it.

import { h, choices, sinkLink, setText, setAttr, setCell, replace, visible, timeNode } from "./dom.js";

const runAfter = 250; // milliseconds behind the last key
const reportEvery = 2000;

const kinds = ["path", "template", "body", "headers", "ip", "datetime", "uuid"];
const types = ["string", "bool", "int64", "float64", "decimal(10,2)", "timestamp", "date", "uuid", "json", "bytes"];

// Options of a column: its member, what it is called, and the kinds or types that have it; without both, all typed columns do.
const options = [
  { key: "default", label: "Default, as JSON", kinds: ["path"], text: true },
  { key: "defaultOnNull", label: "Default replaces null", kinds: ["path"] },
  { key: "rawString", label: "Text without quotes", kinds },
  { key: "required", label: "Required" },
  { key: "emptyIsNull", label: "Empty text is NULL" },
  { key: "epoch", label: "Numbers count", types: /^(timestamp|date|int64)/, choice: ["", "s", "ms", "us", "ns"] },
  { key: "assumeUtc", label: "Times without zone are UTC", types: /^(timestamp|date|int64)/ },
  { key: "clampLeapSecond", label: "Take leap seconds", types: /^(timestamp|date|int64)/ },
  { key: "fromTimestamp", label: "Date of a timestamp", types: /^date/ },
  { key: "notBefore", label: "Not before", types: /^(timestamp|date)/, text: true },
  { key: "notAfter", label: "Not after", types: /^(timestamp|date)/, text: true },
  { key: "round", label: "Round", types: /^decimal/ },
  { key: "elsePath", label: "Else the field", kinds: ["path"], text: true },
  { key: "elseArrival", label: "Else the arrival time", types: /^(timestamp|date|int64)/ },
  { key: "parseText", label: "Texts are documents", types: /^json/ },
  { key: "anyKind", label: "Take objects and arrays", types: /^string/ },
  { key: "secret", label: "Secret", kinds },
];

const applies = (o, c) =>
  o.key === "rawString" ? ["path", "template"].includes(c.type) && c.dataType === "" : o.kinds ? o.kinds.includes(c.type) : o.types ? o.types.test(c.dataType) : c.dataType !== "";
// An option that is set stays visible, so that it can be taken back when it no longer applies.
const shown = (o, c) => applies(o, c) || (c[o.key] && (!o.kinds || o.key === "rawString"));

export function open(section, app) {
  let base = null; // what the server said of the sink
  let draft = []; // columns as they are edited
  let nodes = []; // of the columns, in their order
  let serial = 0; // makes the ids of fields unique
  let dirty = false, inFlight = false, timer = 0, polling = 0, here = false;

  // Nodes that stay

  const sinks = h("datalist", { id: "try-sinks" });
  const sinkInput = h("input", { id: "try-sink", type: "search", list: "try-sinks", autocomplete: "off", spellcheck: "false", placeholder: "source/sink" });
  const about = h("p", { class: "line" });
  const chooser = h("form", { class: "tablebar", onsubmit: (e) => { e.preventDefault(); choose(); } },
    h("h2", { text: "Playground" }), h("label", { for: "try-sink", text: "Sink" }), sinkInput, sinks, h("button", { text: "Open" }), about);
  const field = (id, label, node) => { node.id = id; return h("div", { class: "field" }, h("label", { for: id, text: label }), node); };
  const textInput = (props) => h("input", { type: "text", autocomplete: "off", spellcheck: "false", ...props });

  const pick = h("select", { onchange: () => takeEvent(pick.value) });
  const headers = h("textarea", { rows: "3", spellcheck: "false", wrap: "off" });
  const body = h("textarea", { rows: "14", spellcheck: "false", class: "code" });
  const ip = textInput({}), received = textInput({ placeholder: "now" });
  const format = h("select", {}, ...[["", "by its Content-Type"], ["json", "JSON"], ["form", "a form"], ["opaque", "something else"]]
    .map(([value, text]) => h("option", { value, text })));
  const eventNote = h("p", { class: "line" }), eventProblem = h("p", { class: "problem", hidden: true });
  const eventFields = { headers, body, ip, received, format };
  const eventPane = h("section", { class: "pane", "aria-label": "Event" }, h("h3", { text: "Event" }),
    field("try-pick", "Take", pick), eventNote,
    field("try-headers", "Headers, one a line", headers), field("try-body", "Body", body), eventProblem,
    h("details", {}, h("summary", { text: "Sender, time and format" }),
      field("try-ip", "IP address", ip), field("try-received", "Received", received), field("try-format", "The body is", format)));
  for (const node of Object.values(eventFields)) node.addEventListener("input", () => soon());

  const list = h("ol", { class: "columns" });
  const wholeProblems = h("ul", { class: "problems", "aria-label": "Problems of all columns" });
  const json = h("textarea", { rows: "12", spellcheck: "false", class: "code", wrap: "off" });
  const jsonProblem = h("p", { class: "problem", hidden: true });
  const columnsPane = h("section", { class: "pane", "aria-label": "Columns" }, h("h3", { text: "Columns" }), wholeProblems, list,
    h("button", { type: "button", icon: "plus", text: "Add a column", onclick: () => { insert(draft.length); } }),
    h("details", {}, h("summary", { text: "Columns as JSON" }), field("try-json", "Definition of the columns", json), jsonProblem,
      h("p", { class: "choices" }, h("button", { type: "button", icon: "copy", text: "Copy", onclick: copy }), h("button", { type: "button", text: "Use this text", onclick: useText }))),
    h("datalist", { id: "try-types" }, ...types.map((value) => h("option", { value }))));

  const verdict = h("p", { class: "verdict", role: "status" });
  const cells = h("tbody");
  const csv = h("pre", { class: "raw", tabindex: "0", role: "region", "aria-label": "Row as CSV" });
  const csvTitle = h("h4", { text: "Stored as CSV" });
  const rowPane = h("section", { class: "pane", "aria-label": "Row" }, h("h3", { text: "Row" }), verdict,
    h("table", { class: "cells" }, h("caption", { class: "unseen", text: "The row as the table will have it" }),
      h("thead", {}, h("tr", {}, ...["Column", "Type", "Value"].map((text) => h("th", { scope: "col", text })), h("th", { scope: "col", class: "n", text: "Bytes" }))), cells),
    csvTitle, csv);

  const changes = h("div"), saveText = h("p", { role: "status" });
  const description = textInput({ maxlength: "200" });
  const minutes = h("input", { type: "number", min: "1", max: "1440", value: "10" });
  const percent = h("input", { type: "number", min: "0.1", max: "100", step: "any", value: "100" });
  const compare = h("button", { type: "button", text: "Compare with the saved columns", onclick: showChanges });
  const stop = h("button", { type: "button", text: "Stop the shadow", hidden: true, onclick: stopShadow });
  const save = h("button", { type: "button", onclick: saveColumns });
  const whyNot = h("p", { class: "line" });
  const report = h("div");
  const savePane = h("section", { class: "pane wide", "aria-label": "Change" }, h("h3", { text: "Change" }), h("p", {}, compare), changes,
    h("p", { class: "choices left" }, save, stop), whyNot, saveText, report);

  const work = h("div", { class: "playground", hidden: true }, eventPane, columnsPane, rowPane, savePane);
  section.append(chooser, work);

  let asking = 0;
  sinkInput.addEventListener("input", () => { clearTimeout(asking); asking = setTimeout(offerSinks, runAfter); });

  async function offerSinks() {
    try {
      const { sinks: names } = await app.get("try.sinks", { filter: sinkInput.value.trim() });
      replace(sinks, ...(names || []).map((value) => h("option", { value })));
      if (!base) replace(about, ...choices("try", names));
    } catch (e) { app.problem(e.message); }
  }

  function choose() {
    const [source, sink] = sinkInput.value.trim().split("/");
    if (source && sink) app.go("#/try/" + encodeURIComponent(source) + "/" + encodeURIComponent(sink));
    else setText(about, "Write a source and a sink, as in web/events.");
  }

  // Opening

  const ids = () => ({ source: base.source, sink: base.sink });
  const name = () => base.source + "/" + base.sink;

  async function load(source, sink, event) {
    let got;
    try {
      got = await app.get("try.open", { source, sink });
    } catch (e) { app.problem(e.message); return; }
    const other = !base || base.source !== got.source || base.sink !== got.sink;
    base = got;
    dirty = false;
    sinkInput.value = name();
    showVersion(base.version);
    replace(pick, h("option", { value: "", text: "the event below" }), ...base.picks.map((p) =>
      h("option", { value: p.id, text: "rejected " + timeNode(p.at).textContent + (p.column ? " · " + p.column : "") + " · " + p.message.slice(0, 60) })));
    if (other) {
      headers.value = base.telemetry ? "" : "Content-Type: application/json";
      format.value = base.telemetry ? "json" : "";
      body.value = base.example;
      setText(eventNote, "This is an example that fits the columns. Paste your own event over it." + (base.telemetry ? " An event of this source is one flat record." : ""));
      replace(report); replace(changes); setText(saveText, "");
    }
    save.hidden = !!(base.noSave && base.noShadow);
    setText(whyNot, [base.noSave, base.noShadow === base.noSave ? "" : base.noShadow].filter(Boolean).join(" "));
    work.hidden = false;
    setColumns(base.columns);
    if (event) await takeEvent(event);
    soon(0);
    poll();
  }

  // keepOrDrop asks before another sink takes the place of columns that are nowhere else.
  async function keepOrDrop(source, sink, event) {
    const drop = await app.ask({ title: "Drop the edited columns of " + name() + "?", action: "Drop them",
      text: "They are not saved. The playground has one sink at a time." });
    if (drop) load(source, sink, event);
    else app.go("#/try/" + encodeURIComponent(base.source) + "/" + encodeURIComponent(base.sink));
  }

  // showVersion makes a version the one that the next save replaces. The user must have seen its columns, or the difference from them.
  function showVersion(version) {
    base.version = version;
    replace(about, "Table " + visible(base.table) + (version ? ", version " + version : "") + ". Nothing is stored here. Sink ", sinkLink(name()));
    setText(save, base.noSave ? "Run as shadow…" : "Save as version " + (version + 1) + "…");
  }

  async function takeEvent(id) {
    setText(eventNote, "");
    if (!id) return;
    try {
      const e = await app.get("try.event", { ...ids(), id });
      for (const [key, node] of Object.entries(eventFields)) node.value = e[key] || "";
      const notes = [];
      if (e.request) notes.push(visible(e.request) + ".");
      if (e.changed) notes.push("The body has bytes that are not text. They are replaced here, so the row may differ.");
      if (e.removed?.length) notes.push("Headers that were not kept: " + e.removed.map((n) => visible(n)).join(", ") + ".");
      setText(eventNote, notes.join(" "));
      pick.value = id;
      soon(0);
    } catch (e) { setText(eventNote, e.message); }
  }

  // Columns

  function setColumns(columns) {
    draft = columns.map((c) => ({ ...c }));
    nodes = draft.map(columnNode);
    replace(list, ...nodes.map((n) => n.node));
    renumber();
  }

  function insert(at) {
    const c = { type: "path", name: "", path: "", default: "", template: "", dataType: "string" };
    draft.splice(at, 0, c);
    const n = columnNode(c);
    nodes.splice(at, 0, n);
    list.insertBefore(n.node, list.children[at] || null);
    n.node.querySelector("input").focus();
    renumber();
    changed();
  }

  function move(n, by) {
    const from = nodes.indexOf(n), to = from + by;
    if (to < 0 || to >= nodes.length) return;
    const focused = document.activeElement;
    nodes.splice(to, 0, ...nodes.splice(from, 1));
    draft.splice(to, 0, ...draft.splice(from, 1));
    list.insertBefore(n.node, nodes[to + 1]?.node || null);
    focused?.focus();
    renumber();
    changed();
  }

  function drop(n) {
    const at = nodes.indexOf(n);
    nodes.splice(at, 1);
    draft.splice(at, 1);
    n.node.remove();
    (nodes[Math.min(at, nodes.length - 1)]?.node.querySelector("input") || columnsPane.querySelector("button")).focus();
    renumber();
    changed();
  }

  function renumber() {
    nodes.forEach((n, i) => setAttr(n.group, "aria-label", "Column " + (i + 1)));
  }

  function changed() {
    dirty = true;
    soon();
  }

  // columnNode returns the fields of a column. The kind and the type decide which are shown; what is hidden keeps its value.
  function columnNode(c) {
    const id = "try-c" + ++serial;
    const problems = h("ul", { class: "problems", id: id + "-problems" });
    const on = (node, key) => {
      node.addEventListener(node.type === "checkbox" || node.tagName === "SELECT" ? "change" : "input", () => {
        c[key] = node.type === "checkbox" ? node.checked : node.value;
        if (key === "type" || key === "dataType") show();
        changed();
      });
      return node;
    };
    const input = (key, label, props) => {
      const node = on(textInput({ id: id + "-" + key, "aria-describedby": problems.id, ...props }), key);
      node.value = c[key] || "";
      return [node, h("div", { class: "field" }, h("label", { for: node.id, text: label }), node)];
    };
    const choice = (key, label, values, names) => {
      const node = on(h("select", { id: id + "-" + key, "aria-describedby": problems.id }, ...values.map((value, i) => h("option", { value, text: names?.[i] || value }))), key);
      node.value = c[key] || "";
      return [node, h("div", { class: "field" }, h("label", { for: node.id, text: label }), node)];
    };
    const fields = {};
    const [nameInput, nameField] = input("name", "Name");
    const [kindInput, kindField] = choice("type", "From", kinds);
    const [typeInput, typeField] = input("dataType", "Type", { list: "try-types", placeholder: "untyped" });
    const [pathInput, pathField] = input("path", "Path", { placeholder: "whole body" });
    Object.assign(fields, { name: nameInput, type: kindInput, dataType: typeInput, path: pathInput });

    const gutter = h("pre", { class: "gutter", "aria-hidden": "true" });
    const program = on(h("textarea", { id: id + "-template", class: "code", wrap: "off", spellcheck: "false", "aria-describedby": problems.id }), "template");
    program.value = c.template || "";
    program.addEventListener("input", lines);
    program.addEventListener("scroll", () => { gutter.scrollTop = program.scrollTop; });
    const programField = h("div", { class: "field whole" }, h("label", { for: program.id, text: "Template (jsonnet)" }), h("div", { class: "editor" }, gutter, program));
    fields.template = program;
    let bad = 0; // the line with an error

    function lines() {
      const n = program.value.split("\n").length;
      setAttr(program, "rows", Math.max(2, Math.min(20, n)));
      const numbers = [];
      for (let i = 1; i <= n; i++) numbers.push(h("span", { class: i === bad ? "bad" : null, text: (i === bad ? "✕ " : "") + i + "\n" }));
      replace(gutter, ...numbers);
      gutter.scrollTop = program.scrollTop;
    }

    const optionFields = options.map((o) => {
      if (o.text || o.choice) {
        const [node, f] = o.choice ? choice(o.key, o.label, o.choice, ["units: none"]) : input(o.key, o.label);
        fields[o.key] = node;
        return [o, f];
      }
      const node = on(h("input", { type: "checkbox", id: id + "-" + o.key, "aria-describedby": problems.id }), o.key);
      node.checked = !!c[o.key];
      fields[o.key] = node;
      return [o, h("div", { class: "check" }, node, h("label", { for: node.id, text: o.label }))];
    });
    const count = h("span");
    const more = h("details", {}, h("summary", {}, "Options", count), h("div", { class: "fields" }, ...optionFields.map(([, f]) => f)));

    function show() {
      pathField.hidden = c.type !== "path";
      programField.hidden = c.type !== "template";
      for (const [o, f] of optionFields) f.hidden = !shown(o, c);
      const set = options.filter((o) => shown(o, c) && c[o.key]).map((o) => o.label.toLowerCase());
      setText(count, set.length ? ": " + set.join(", ") : "");
      lines();
    }
    more.addEventListener("change", show);

    const n = {};
    const button = (text, label, onclick) => h("button", { type: "button", text, "aria-label": label, title: label, onclick });
    n.group = h("div", { role: "group" },
      h("div", { class: "fields" }, nameField, kindField, typeField, pathField,
        h("span", { class: "moves" }, button("↑", "Move up", () => move(n, -1)), button("↓", "Move down", () => move(n, 1)), button("✕", "Remove this column", () => drop(n)))),
      programField, more, problems);
    n.node = h("li", {}, n.group);

    // The names that the server gives to fields are those of the Stream API.
    const fieldOf = (f) => fields[{ defaultValue: "default" }[f] || f.split(".")[0]];
    n.problems = (some) => {
      for (const f of Object.values(fields)) setAttr(f, "aria-invalid", null);
      bad = 0;
      replace(problems, ...some.map((p) => {
        const target = fieldOf(p.field || (c.type === "template" && p.line ? "template" : c.type === "path" ? "path" : "name"));
        if (target) setAttr(target, "aria-invalid", "true");
        if (target === program) bad = p.line;
        if (!p.line || !target) return h("li", { text: (p.field ? p.field + ": " : "") + p.text });
        return h("li", {}, h("button", { type: "button", text: p.line + ":" + p.col, "aria-label": "Go to line " + p.line + ", column " + p.col, onclick: () => goTo(target, p) }), " " + p.text);
      }));
      lines();
    };
    show();
    return n;
  }

  // goTo puts the caret at a place that counts characters, where texts of scripts count UTF-16.
  function goTo(target, p) {
    const all = target.value.split("\n");
    const before = all.slice(0, p.line - 1).reduce((sum, l) => sum + l.length + 1, 0);
    const at = before + [...(all[p.line - 1] || "")].slice(0, p.col - 1).join("").length;
    target.focus();
    target.setSelectionRange(at, at);
  }

  async function useText() {
    jsonProblem.hidden = true;
    try {
      const got = await app.post("try.columns", { text: json.value });
      setColumns(got.columns);
      changed();
      app.say("The columns now match the text.");
    } catch (e) {
      const p = e.body?.problems?.[0];
      setText(jsonProblem, (p?.line ? p.line + ":" + p.col + " " : "") + e.message);
      jsonProblem.hidden = false;
      if (p?.line) goTo(json, p);
    }
  }

  async function copy() {
    try {
      await navigator.clipboard.writeText(json.value);
      app.say("Copied.");
    } catch {
      json.select(); // without TLS there is no clipboard
      app.say("The text is selected: copy it.");
    }
  }

  // The row

  function soon(after = runAfter) {
    clearTimeout(timer);
    timer = setTimeout(run, after);
  }

  let again = false; // something was typed while a request was under way
  async function run() {
    if (!base || !here) return;
    if (inFlight) { again = true; return; }
    inFlight = true;
    section.dataset.busy = "";
    const event = Object.fromEntries(Object.entries(eventFields).map(([key, node]) => [key, node.value.trim && key !== "body" && key !== "headers" ? node.value.trim() : node.value]));
    try {
      const answer = await app.post("try.run", { ...ids(), columns: draft, event });
      eventProblem.hidden = true;
      showRow(answer);
    } catch (e) {
      for (const node of Object.values(eventFields)) setAttr(node, "aria-invalid", null);
      if (e.body?.event) setAttr(eventFields[e.body.event], "aria-invalid", "true");
      setText(eventProblem, e.message);
      eventProblem.hidden = false;
      noRow("The row is unknown.");
    }
    inFlight = false;
    delete section.dataset.busy;
    section.dataset.runs = Number(section.dataset.runs || 0) + 1;
    if (again) { again = false; soon(0); }
  }

  function noRow(text) {
    setText(verdict, text);
    setAttr(verdict, "data-state", "error");
    replace(cells);
    csv.hidden = csvTitle.hidden = true;
  }

  function showRow(answer) {
    for (const node of Object.values(eventFields)) setAttr(node, "aria-invalid", null);
    const problems = answer.problems || [];
    replace(wholeProblems, ...problems.filter((p) => p.column < 0).map((p) => h("li", { text: p.text })));
    const failed = (answer.cells || []).map((c) => c.why).filter(Boolean);
    nodes.forEach((n, i) => n.problems([...problems, ...failed].filter((p) => p.column === i)));
    if (document.activeElement !== json && answer.text) json.value = answer.text;
    if (problems.length) {
      noRow(problems.length === 1 ? "The columns have an error." : "The columns have " + problems.length + " errors.");
      return;
    }
    const now = answer.rejected ? "Rejected because of " + answer.reason + ": " + answer.rejected : "Would be stored. Nothing is stored here.";
    setText(verdict, now);
    setAttr(verdict, "data-state", answer.rejected ? "error" : "ok");
    replace(cells, ...(answer.cells || []).map(cellRow));
    csv.hidden = csvTitle.hidden = !answer.csv;
    setText(csvTitle, "Stored as CSV, " + (answer.csvBytes || 0).toLocaleString("en") + " bytes");
    setText(csv, visible(answer.csv || "", true) + (answer.csvCut ? "…" : ""));
  }

  function cellRow(c) {
    let value;
    if (c.why) value = h("td", { class: "problem" }, "✕ " + (c.why.line ? c.why.line + ":" + c.why.col + " " : "") + c.why.text);
    else if (c.null) value = h("td", {}, h("em", { text: "NULL" }));
    else if (c.value === "") value = h("td", {}, h("em", { text: "empty text" }));
    else value = h("td", {}, h("code", { text: visible(c.value, true) + (c.cut ? "…" : "") }));
    return h("tr", {}, h("th", { scope: "row", text: visible(c.name) }), h("td", { text: c.type + (c.required ? ", required" : "") }), value,
      h("td", { class: "n", text: c.why || c.null ? "–" : c.bytes < 0 ? "secret" : c.bytes.toLocaleString("en") }));
  }

  // Comparing, shadow, saving

  function showProblems(e) {
    if (e.body?.problems) nodes.forEach((n, i) => n.problems(e.body.problems.filter((p) => p.column === i)));
    setText(saveText, e.message);
  }

  // changeNodes show a difference from the saved columns, and what the table makes of it, below a heading of a level.
  function changeNodes(d, level) {
    const items = d.changes.map((c) => h("li", {}, h("strong", { text: visible(c.name) }), " " + c.what,
        ...(c.fields || []).map((f) => h("div", { class: "change" }, h("span", { text: f.field + ": " }),
          f.before === "" ? null : h("del", { text: visible(f.before, true) }), f.before && f.after ? " → " : "", f.after === "" ? null : h("ins", { text: visible(f.after, true) })))));
    return [h(level, { text: "Changes" + (d.version ? " since version " + d.version : "") }),
      items.length ? h("ul", { class: "changes" }, ...items) : h("p", { text: "The columns are as they were saved." }),
      ...d.warnings.map((w) => h("p", { class: "problem", text: "▲ " + w }))];
  }

  async function showChanges() {
    const asked = name();
    try {
      const d = await app.post("try.diff", { ...ids(), columns: draft });
      if (asked !== name()) return;
      showVersion(d.version);
      replace(changes, ...changeNodes(d, "h4"));
      setText(saveText, "");
      app.say(d.changes.length + (d.changes.length === 1 ? " change." : " changes."));
    } catch (e) { showProblems(e); }
  }

  async function startShadow() {
    try {
      showReport(await app.post("try.shadow", { ...ids(), columns: draft, minutes: Number(minutes.value), records: 0, percent: Number(percent.value) }));
      setText(saveText, "The shadow runs on records that arrive from now on, on this node. It continues if you close this page.");
      poll();
    } catch (e) { showProblems(e); }
  }

  async function stopShadow() {
    try { showReport(await app.post("try.stop", ids())); } catch (e) { showProblems(e); }
  }

  // poll shows the report of the shadow while it runs.
  async function poll() {
    clearTimeout(polling);
    if (!here || !base) return;
    const asked = name();
    try {
      const r = await app.get("try.report", ids());
      if (asked !== name()) return;
      showReport(r);
      if (r.runs && here) polling = setTimeout(poll, reportEvery);
    } catch (e) {
      setText(saveText, e.message);
      polling = setTimeout(poll, 5 * reportEvery);
    }
  }

  function showReport(r) {
    stop.hidden = !r.runs || !app.may("changes");
    if (!r.counts) { replace(report); return; }
    const text = (v) => (v === null ? h("em", { text: "NULL" }) : h("code", { text: visible(v, true) }));
    const counts = h("dl", { class: "counts" }, ...r.counts.flatMap((c) => {
      const n = h("dd", { class: c.bad ? "problem" : null });
      setCell(n, c.n);
      return [h("dt", { text: c.name }), n];
    }));
    const different = r.columns.filter((c) => c.different || c.what === "new" || c.what === "missing");
    replace(report, h("h4", {}, "Shadow by " + visible(r.user) + ", ", timeNode(r.began), r.runs ? " until " : " to ", timeNode(r.until)),
      r.end ? h("p", { text: r.end }) : null, counts,
      different.length ? h("table", { class: "cells" }, h("caption", { text: "Cells that differ" }),
        h("thead", {}, h("tr", {}, ...["Column", "Records", "Examples: current → changed"].map((t) => h("th", { scope: "col", text: t })))),
        h("tbody", {}, ...different.map((c) => h("tr", {}, h("th", { scope: "row", text: visible(c.name) }),
          h("td", { text: c.what === "new" ? "new column" : c.what === "missing" ? "no longer mapped" : c.different.toLocaleString("en") }),
          h("td", {}, ...c.examples.map((e) => h("div", {}, text(e.current), " → ", text(e.changed)))))))) : null,
      r.errors.length ? h("table", { class: "cells" }, h("caption", { text: "Rejections that differ" }),
        h("thead", {}, h("tr", {}, ...["By", "Records", "Why"].map((t) => h("th", { scope: "col", text: t })))),
        h("tbody", {}, ...r.errors.map((e) => h("tr", {}, h("td", { text: e.changed ? "changed columns" : e.column || e.reason ? "current columns" : "either" }),
          h("td", { text: e.records.toLocaleString("en") }), h("td", { text: [e.reason, e.message].filter(Boolean).join(": ") }))))) : null,
      ...r.problems.map((p) => h("p", { class: "problem", text: "▲ " + p })),
      r.currentTime ? h("p", { class: "line", text: "One record takes " + r.currentTime + " now and " + r.changedTime + " with the change, each with its own reading of the body." }) : null);
  }

  let shadowed = ""; // the columns of the last shadow that was started here

  // saveColumns is one way: what changes, then a shadow first, or the new version. Who has run a shadow of these columns is offered the version.
  async function saveColumns() {
    const asked = name(), columns = JSON.stringify(draft), seen = base.version;
    let d;
    try {
      d = await app.post("try.diff", { ...ids(), columns: draft });
    } catch (e) { showProblems(e); return; }
    if (asked !== name() || columns !== JSON.stringify(draft)) return;
    showVersion(d.version);
    const version = "version " + (d.version + 1);
    const words = { shadow: "Run the shadow", now: "Save as " + version };
    let way = base.noShadow || (shadowed === columns && !base.noSave) ? "now" : "shadow";
    const sure = await app.ask({
      title: base.noSave ? "Run these columns as a shadow?" : "Save as " + version + "?", action: words[way],
      text: seen === d.version ? "" : "Version " + d.version + " was saved meanwhile by a different user. The changes below are relative to that version.",
      body: (nameAction) => {
        const fields = { shadow: h("div", { class: "fields" }, field("try-minutes", "Minutes", minutes), field("try-percent", "Percent of the records", percent)),
          now: h("div", { class: "fields" }, field("try-description", "What has changed", description)) };
        const show = () => { for (const [key, node] of Object.entries(fields)) node.hidden = key !== way; };
        const choice = (key, text) => h("label", { class: "check" }, h("input", { type: "radio", name: "try-way", value: key, checked: key === way,
          onchange: () => { way = key; nameAction(words[key]); show(); } }), text);
        show();
        return [...changeNodes(d, "h3"),
          base.noSave || base.noShadow ? null : h("fieldset", {}, h("legend", { text: "How" }),
            choice("shadow", "As a shadow first: it maps new events with these columns too, compares the rows, and stores nothing."),
            choice("now", "Now: new events are mapped by these columns.")),
          fields.shadow, fields.now].filter(Boolean);
      },
    });
    if (!sure) return;
    if (way === "shadow") {
      shadowed = columns;
      await startShadow();
      return;
    }
    save.disabled = true;
    setText(saveText, "Saving…");
    try {
      const r = await app.post("try.save", { ...ids(), columns: draft, version: base.version, description: description.value.trim() });
      const version = base.version;
      setText(saveText, r.text + (r.state === "done" ? (r.version === version ? " Nothing has changed, so there is no new version." : " It is version " + r.version + ".") : "") +
        (r.warnings || []).map((w) => " ▲ " + w).join(""));
      if (r.state === "done") {
        const text = saveText.textContent;
        description.value = "";
        replace(changes);
        await load(base.source, base.sink);
        setText(saveText, text);
      }
    } catch (e) { showProblems(e); }
    save.disabled = false;
  }

  window.addEventListener("beforeunload", (e) => { if (dirty) e.preventDefault(); });

  return {
    query: () => ({}),
    enter(path, params) {
      here = true;
      const [source, sink] = path;
      if (!source || !sink) { offerSinks(); return; }
      if (base && dirty && (base.source !== source || base.sink !== sink)) {
        keepOrDrop(source, sink, params.event);
        return;
      }
      if (base && base.source === source && base.sink === sink) {
        if (params.event && pick.value !== params.event) takeEvent(params.event);
        poll();
        return;
      }
      load(source, sink, params.event);
    },
    leave() {
      here = false;
      clearTimeout(timer);
      clearTimeout(polling);
    },
  };
}
