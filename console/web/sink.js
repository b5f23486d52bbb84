// One sink: the picture, why rows wait, files, settings, and what can be done.

import { h, factNodes, head, newPager, setText, setAttr, setCell, setSentence, replace, visible } from "./dom.js";
import { newPicture } from "./picture.js";
import { newQuery } from "./query.js";

export function open(section, app) {
  let source = "", sink = "";
  let asked = ""; // the table that the query is for
  const picture = newPicture(), query = newQuery(app, "sink-query");
  const title = h("h2", { class: "title" }), state = h("span", { class: "state" }, h("span"));
  const why = h("p", { class: "why" });
  const act = (text, icon, name) => h("button", { type: "button", icon, text, onclick: () => run(name, {}) });
  const flush = act("Flush", "flush", "sink.flush"), retry = act("Retry now", "retry", "sink.retry");
  const acts = h("p", { class: "acts" }, flush, " ", retry);
  const ledger = h("p", { class: "ledger" });
  const facts = h("dl", { class: "facts" });
  const body = h("tbody");
  const heads = ["State", "Rows", "Bytes", "Slices", "Opened", "Closed because", "Waits for", ""];
  const table = h("table", { class: "files sinks" },
    h("caption", { class: "unseen", text: "Files of the sink" }),
    h("thead", {}, h("tr", {}, ...heads.map((text, i) =>
      head(text, i > 0 && i < 4 ? "n" : null)))),
    body);
  const none = h("p", { text: "No file. A file begins with the first row." });
  let params = {};
  const causes = h("tbody");
  const causeTable = h("table", { class: "causes cards" },
    h("caption", { class: "unseen", text: "Errors, each with the files that wait because of it" }),
    h("thead", {}, h("tr", {}, ...["Cause", "Since", "Files", "Rows", "Next attempt in", "Rows expire", "To do"].map((text, i) =>
      head(text, i === 2 || i === 3 ? "n" : null)))),
    causes);
  const causeHead = h("h2", { text: "What fails" });
  const kinds = h("span", { class: "kinds", role: "group", "aria-label": "Which files" });
  const pager = newPager((from) => show({ from: String(from) }));
  const fileBar = h("div", { class: "tablebar" }, h("h2", { text: "Files" }), kinds, pager.node);

  // show asks for other files, which the address keeps.
  function show(some) {
    params = { ...params, ...some };
    if (params.from === "0") params.from = "";
    app.setParams(params);
  }

  const choose = (of) => show({ of: params.of === of ? "" : of, from: "" });

  function fillCause(tr, c) {
    const cells = tr.cells;
    setSentence(cells[0].firstElementChild, c.text);
    setSentence(cells[1], c.since);
    setCell(cells[2].firstElementChild, c.files);
    setCell(cells[3].firstElementChild, c.rows);
    setSentence(cells[4], c.next);
    setSentence(cells[5], c.expire);
    setText(cells[6], c.do || "");
    setAttr(cells[2].firstElementChild, "aria-pressed", String(params.of === c.key));
  }

  function newCause(key) {
    const n = (label) => h("td", { class: "n", "data-label": label }, h("span"));
    return h("tr", { "data-key": key }, h("th", { scope: "row", class: "why" }, h("span")),
      h("td", { "data-label": "Since" }), h("td", { class: "n", "data-label": "Files" }, h("button", { type: "button", title: "Show these files", onclick: () => choose(key) })),
      n("Rows"), h("td", { "data-label": "Next attempt in" }), h("td", { "data-label": "Rows expire" }), h("td", { "data-label": "To do" }));
  }

  function showList(list, shownFiles) {
    sync(causes, (list.causes || []).map((c) => c.key), newCause, (tr, key) => fillCause(tr, list.causes.find((c) => c.key === key)));
    causeTable.hidden = causeHead.hidden = !list.causes?.length;
    const all = [{ state: "", files: "All" }, ...(list.states || [])];
    const key = JSON.stringify([all, list.of]);
    if (kinds.dataset.key !== key) {
      kinds.dataset.key = key;
      const had = kinds.contains(document.activeElement) ? document.activeElement.dataset.of : null;
      replace(kinds, ...all.flatMap((k) => [" ", h("button", { type: "button", "data-of": k.state, "aria-pressed": String(list.of === k.state),
        text: k.state ? k.state + " " + (Array.isArray(k.files) ? k.files[0] : k.files) : k.files, onclick: () => show({ of: k.state, from: "" }) })]).slice(1));
      if (had !== null) kinds.querySelector(`[data-of="${had}"]`)?.focus();
    }
    kinds.hidden = all.length < 3 && !list.of;
    pager.show(list.from, shownFiles, list.matching);
    setText(none, list.of ? "None of these files is left." : "No file. A file begins with the first row.");
  }

  // sync makes the rows of a table those of keys, in their order. Rows that stay keep their nodes, and with them the focus.
  function sync(rows, keys, make, fill) {
    const known = new Map([...rows.rows].map((tr) => [tr.dataset.key, tr]));
    let at = rows.firstElementChild;
    for (const key of keys) {
      const tr = known.get(key) || make(key);
      known.delete(key);
      fill(tr, key);
      if (tr === at) at = at.nextElementSibling;
      else rows.insertBefore(tr, at);
    }
    for (const tr of known.values()) tr.remove();
  }

  const around = h("nav", { class: "around", "aria-label": "More about this sink" });
  const runbook = "https://github.com/forebay/forebay/blob/main/docs/runbook.md#";
  const sections = { late: "forebayrowsold", fails: "forebayheld", blocked: "forebayheld", refuses: "forebayrefusing" };

  // showLinks leads from the sink to its rows, rejected records, columns and versions, and from a state that is bad to what an operator does then.
  function showLinks(head) {
    const path = [source, sink].map(encodeURIComponent).join("/");
    const links = [
      ["quarantine", "#/quarantine?" + new URLSearchParams({ sink: source + "/" + sink }), "Rejected records: " + (Array.isArray(head.quarantined) ? head.quarantined[0] : head.quarantined)],
      ["tables", "#/tables/" + path, "Last rows"],
      ["try", "#/try/" + path, "Playground"],
      ["defs", "#/defs?" + new URLSearchParams({ ref: source + "/" + sink }), "Versions"],
    ].filter(([page]) => app.has(page));
    if (sections[head.state]) links.push(["book", runbook + sections[head.state], "Runbook"]);
    const key = JSON.stringify(links);
    if (around.dataset.key === key) return;
    around.dataset.key = key;
    replace(around, ...links.map(([icon, href, text]) => h("a", { href, icon, text, ...(href.startsWith("#") ? {} : { target: "_blank", rel: "noopener noreferrer" }) })));
  }

  const shown = h("div", {}, acts, around, picture.node, causeHead, causeTable, fileBar, table, none, h("h2", { text: "Ledger" }), ledger,
    h("h2", { text: "Settings" }), facts, query.node);
  const siblings = h("a");
  section.append(h("p", {}, h("a", { href: "#/overview", text: "← All sinks" }), " · ", siblings), h("div", { class: "tablebar" }, title, state), why, shown);

  const said = {
    "sink.retry": "A new attempt has started.",
    "sink.split": "The file is imported without the rows that the target refuses.",
    "sink.quarantine": "Rows that are not in the table move to the quarantine.",
  };

  async function run(name, more) {
    app.problem(null);
    try {
      await app.post(name, { source, sink, ...more });
      if (said[name]) app.say(said[name]);
    } catch (e) {
      app.problem(e.message);
    }
  }

  // The query is asked for when the page is opened, and when the table has changed.
  async function ask() {
    const of = { source, sink };
    let got = { language: "", query: "" };
    try {
      got = await app.get("sink.query", of);
    } catch { /* there is no such sink, which the page says itself */ }
    if (of.source === source && of.sink === sink) query.show(got);
  }

  function newRow(id) {
    const n = (label) => h("td", { class: "n", "data-label": label }, h("span"));
    return h("tr", { "data-key": id, title: "File " + visible(id) },
      h("th", { scope: "row" }), n("Rows"), n("Bytes"), n("Slices"), h("td", { "data-label": "Opened" }), h("td", { "data-label": "Closed because" }),
      h("td", { class: "why" }), h("td", { class: "acts" }));
  }

  function fill(tr, [name, rows, bytes, slices, opened, reason, sentence, left, more]) {
    const c = tr.cells;
    setText(c[0], name);
    setCell(c[1].firstElementChild, rows);
    setCell(c[2].firstElementChild, bytes);
    setText(c[3].firstElementChild, slices);
    setSentence(c[4], opened === "" ? [] : [opened]);
    setText(c[5], reason);
    setSentence(c[6], sentence);
    const offered = left >= 0 && app.may("changes") ? (more + " discard").trim() : "";
    tr.left = left;
    if (tr.offered === offered) return;
    tr.offered = offered;
    const id = tr.dataset.key, act = (icon, text, what, onclick, danger) =>
      h("button", { type: "button", class: danger ? "danger" : null, icon, text, "aria-label": what + " file " + visible(id), onclick });
    const buttons = {
      split: () => act("split", "Split…", "Split", () => split(tr)),
      quarantine: () => act("quarantine", "To quarantine…", "Quarantine", () => quarantine(tr)),
      discard: () => act("discard", "Discard…", "Discard", () => discard(tr), true),
    };
    replace(c[7], ...offered.split(" ").filter(Boolean).flatMap((name) => [" ", buttons[name]()]).slice(1));
  }

  async function split(tr) {
    const sure = await app.ask({
      title: "Split the file?", action: "Split",
      text: "The rows that the table of " + source + "/" + sink + " accepts are imported, and the rows that it refuses go to the quarantine, up to 1,000 more. "
        + "The file is held because the cause is probably not in single rows.",
    });
    if (sure) run("sink.split", { file: tr.dataset.key });
  }

  async function quarantine(tr) {
    const sure = await app.ask({
      title: "Move the file to the quarantine?", action: "To quarantine",
      text: "All rows of this file of " + source + "/" + sink + " that are not in the table go to the quarantine of the sink. There they can be edited, replayed or discarded.",
    });
    if (sure) run("sink.quarantine", { file: tr.dataset.key });
  }

  async function discard(tr) {
    const rows = tr.left;
    const sure = await app.ask({
      title: "Discard " + rows.toLocaleString("en") + (rows === 1 ? " row?" : " rows?"), action: "Discard", count: rows,
      text: "The rows of this file of " + source + "/" + sink + " are deleted and will never be in the table. The ledger counts them as discarded.",
    });
    if (sure) run("sink.discard", { file: tr.dataset.key, rows });
  }

  return {
    query: () => ({ source, sink, of: params.of || "", from: params.from || "" }),

    enter(path, now) {
      params = { of: now.of, from: now.from };
      if (source === path[0] && sink === path[1]) return; // the viewer comes back
      [source, sink] = [path[0] || "", path[1] || ""];
      setText(title, visible(source + "/" + sink));
      setText(siblings, "All of source " + visible(source));
      setAttr(siblings, "href", "#/overview?" + new URLSearchParams({ filter: source + "/" }));
      for (const node of [body, causes, around]) node.replaceChildren();
      around.dataset.key = "";
      asked = "";
      query.show({ language: "", query: "" });
    },

    update({ head, rows, order }) {
      if (!head) return;
      shown.hidden = !head.found;
      state.hidden = !head.found;
      setText(title, head.id);
      if (!head.found) {
        setText(why, "There is no such sink.");
        return;
      }
      setAttr(state, "data-state", head.state);
      setText(state.firstElementChild, head.state);
      setSentence(why, head.why);
      showLinks(head);
      picture.update(head.picture);
      acts.hidden = !app.may("changes");
      flush.hidden = !head.defined;
      retry.hidden = !head.failing;
      setSentence(ledger, head.ledger);
      const key = JSON.stringify(head.facts);
      if (facts.dataset.key !== key) {
        facts.dataset.key = key;
        replace(facts, ...factNodes(head.facts));
      }
      const of = JSON.stringify(head.facts[0]);
      if (of !== asked && app.may("records")) {
        asked = of;
        ask();
      }
      showList(head.list, order.length);
      sync(body, order, newRow, (tr, id) => fill(tr, rows.get(id)));
      table.hidden = !order.length;
      none.hidden = order.length > 0;
    },
  };
}
