// The end of the table of a sink, and the query to read more of it.

import { h, choices, setText, setCell, sinkHash, replace, visible, timeNode } from "./dom.js";
import { newQuery } from "./query.js";

export function open(section, app) {
  const names = h("datalist", { id: "tables-sinks" });
  const input = h("input", { id: "tables-sink", type: "search", list: "tables-sinks", autocomplete: "off", spellcheck: "false", placeholder: "source/sink" });
  const reload = h("button", { type: "button", icon: "retry", text: "Refresh", hidden: true, onclick: () => load() });
  section.append(h("form", { class: "tablebar", onsubmit: (e) => { e.preventDefault(); choose(); } },
    h("h2", { text: "Tables" }), h("label", { for: "tables-sink", text: "Sink" }), input, names, h("button", { text: "Open" }), reload));
  const about = h("p"), note = h("p", { role: "status" });
  const query = newQuery(app, "tables-query");
  const rows = h("div");
  section.append(about, query.node, note, rows);
  let of = null; // the sink that is open
  let asking = 0;

  input.addEventListener("input", () => { clearTimeout(asking); asking = setTimeout(offer, 250); });

  async function offer() {
    try {
      const got = await app.get("tables.list", { filter: input.value.trim() });
      replace(names, ...(got.sinks || []).map((value) => h("option", { value })));
      if (!of) replace(note, ...choices("tables", got.sinks));
    } catch (e) { app.problem(e.message); }
  }

  function choose() {
    const [source, sink] = input.value.trim().split("/");
    if (source && sink) app.go("#/tables/" + encodeURIComponent(source) + "/" + encodeURIComponent(sink));
    else setText(note, "Write a source and a sink, as in web/events.");
  }

  async function load() {
    const asked = of;
    let t;
    try {
      t = await app.get("tables.open", asked);
    } catch (e) {
      if (asked !== of) return;
      setText(note, e.message);
      replace(about); // what was shown may be of the sink before
      replace(rows);
      query.show({ language: "", query: "" });
      return;
    }
    if (asked !== of) return;
    input.value = t.source + "/" + t.sink;
    reload.hidden = false;
    const stored = h("span"), waiting = h("span");
    setCell(stored, t.stored);
    setCell(waiting, t.waiting);
    replace(about, h("strong", { text: visible(t.table) }), t.target ? " (" + t.target + ")" : null, ": ", h("a", { href: sinkHash(t.source + "/" + t.sink), text: "this sink" }),
      " has stored ", stored, t.stored === "1" ? " row, and " : " rows, and ", waiting, t.waiting === "1" ? " waits." : " wait.",
      t.imported ? " Last import " : null, t.imported ? timeNode(t.imported) : null, t.imported ? "." : null);
    query.show(t);
    setText(note, t.note || (t.rows.length === 1 ? "The last row" : "The last " + t.rows.length + " rows") + ", newest first. Values are cut after 2 KiB.");
    replace(rows, t.rows.length ? rowsNode(t) : null);
    section.dataset.loads = Number(section.dataset.loads || 0) + 1;
  }

  // Wide tables scroll in their own box, which keyboards reach.
  function rowsNode(t) {
    const kind = (i) => (/^(int64|float64|decimal)/.test(t.columns[i][1]) ? "n" : null);
    const cell = (c, i) => h("td", { class: kind(i) }, c.t === null ? h("em", { text: "NULL" }) : c.t === "" ? h("em", { text: "empty text" }) : h("code", { text: visible(c.t, true) + (c.cut ? "…" : "") }));
    return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Rows of " + visible(t.table) },
      h("table", { class: "rows" }, h("caption", { class: "unseen", text: "The last rows of the table, newest first" }),
        h("thead", {}, h("tr", {}, ...t.columns.map(([name, type], i) => h("th", { scope: "col", class: kind(i) }, visible(name), " ", h("small", { text: type }))))),
        h("tbody", {}, ...t.rows.toReversed().map((r) => h("tr", {}, ...r.map(cell))))));
  }

  return {
    query: () => ({}),
    enter(path) {
      const [source, sink] = path;
      if (!source || !sink) { offer(); return; }
      of = { source, sink };
      load();
    },
  };
}
