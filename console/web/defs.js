// Definitions: sources and sinks, the versions of one of them, what differs between two, and the way back.

import { h, head, newPager, shortId, sinkLink, setText, replace, visible, timeNode } from "./dom.js";

export function open(section, app) {
  let params = {};
  let shown = null; // the versions of the definition that is open
  let may = false;
  let asked = 0, askedVersions = 0, askedDiff = 0; // answers to earlier requests are ignored

  const filter = h("input", { type: "search", id: "d-filter", size: "28", autocomplete: "off", spellcheck: "false", placeholder: "source/sink, name or user" });
  let typing = 0;
  filter.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => change({ filter: filter.value, skip: "" }), 250);
  });
  filter.addEventListener("keydown", (e) => { if (e.key === "Escape") filter.blur(); });

  const table = (caption, heads, body) => h("table", { class: "cards" }, h("caption", { class: "unseen", text: caption }),
    h("thead", {}, h("tr", {}, ...heads.map((t, i) => head(t, i && t === "Version" ? "n" : null)))), body);
  const listBody = h("tbody"), versionBody = h("tbody");
  const note = h("p", { class: "line" });
  const pager = newPager((skip) => change({ skip: skip ? String(skip) : "" }));
  const title = h("h2", { tabindex: "-1" }), diffTitle = h("h3", { tabindex: "-1" });
  const more = h("button", { type: "button", text: "Older versions", hidden: true, onclick: () => loadVersions(shown.versions.at(-1).number) });
  const say = h("p", { class: "line", role: "status" });
  const diff = h("pre", { class: "diff", tabindex: "0", role: "region", "aria-label": "Content of versions" });
  const diffNote = h("p", { class: "line" });
  const diffPart = h("div", { hidden: true }, diffTitle, diffNote, diff);
  const versions = h("section", { class: "record", "aria-label": "Versions", hidden: true },
    h("div", { class: "tablebar" }, title, h("button", { type: "button", text: "Close", onclick: () => {
      const row = params.ref;
      change({ ref: "", from: "", to: "" });
      [...listBody.rows].find((tr) => tr.dataset.key === row)?.querySelector("button").focus();
    } })),
    table("Versions, the newest first", ["Version", "When", "Who", "Change", ""], versionBody), more, say, diffPart);
  section.append(
    h("form", { class: "tablebar filters", role: "search", "aria-label": "Filter of definitions", onsubmit: (e) => e.preventDefault() },
      h("label", {}, "Filter ", filter), h("button", { type: "button", icon: "retry", text: "Refresh", onclick: () => { load(); if (params.ref) loadVersions(); } })),
    table("Sources and sinks", ["Source/sink", "Name", "Version", "When", "Who", "Change", ""], listBody), pager.node, note, versions);

  function change(some) {
    params = { ...params, ...some };
    app.setParams(params);
    show();
  }

  let loaded = null; // the filter and the page of what is shown
  const wanted = () => (params.skip || "") + " " + (params.filter || "");
  function show() {
    if (document.activeElement !== filter) filter.value = params.filter || "";
    if (loaded !== wanted()) load();
    versions.hidden = !params.ref;
    if (!params.ref) shown = null;
    else if (shown?.ref !== params.ref) loadVersions();
    else showDiff();
  }

  async function load() {
    const mine = ++asked;
    loaded = wanted();
    try {
      const answer = await app.get("defs.list", { filter: params.filter || "", skip: params.skip || "" });
      if (mine !== asked) return;
      replace(listBody, ...answer.list.map(row));
      pager.show(answer.skip, answer.list.length, answer.matching);
      setText(note, answer.matching ? "" : params.filter ? "No definition matches the filter." : "No source is defined yet.");
    } catch (e) {
      if (mine === asked) app.problem(e.message);
    }
  }

  const who = (v) => [h("td", { "data-label": "When" }, timeNode(v.at)), h("td", { class: "message", "data-label": "Who", text: v.by }),
    h("td", { class: "message", "data-label": "Change", text: v.change })];

  function row(d) {
    return h("tr", { "data-key": d.ref },
      h("th", { scope: "row" }, d.ref.includes("/") ? sinkLink(d.ref) : shortId(d.ref)),
      h("td", { class: "message", "data-label": "Name", text: d.name + " (" + d.kind + (d.disabled ? ", disabled" : "") + ")" }),
      h("td", { class: "n", "data-label": "Version", text: String(d.version.number) }), ...who(d.version),
      h("td", { class: "actions" }, h("button", { type: "button", text: "Versions", "aria-label": "Versions of " + d.ref, onclick: () => {
        change({ ref: d.ref, from: "", to: "" });
        title.focus();
      } })));
  }

  // loadVersions reads the newest versions, or those before a number, which come below.
  async function loadVersions(before) {
    const mine = ++askedVersions;
    const ref = params.ref;
    let answer;
    try {
      answer = await app.get("defs.versions", before ? { ref, before } : { ref });
    } catch (e) {
      if (mine !== askedVersions) return;
      shown = { ref, versions: [] };
      setText(title, "Versions of " + visible(ref));
      replace(versionBody);
      more.hidden = diffPart.hidden = true;
      setText(say, visible(e.message));
      return;
    }
    if (mine !== askedVersions) return;
    shown = before && shown ? { ...answer, versions: [...shown.versions, ...answer.versions] } : answer;
    setText(say, "");
    showVersions();
    showDiff();
  }

  function showVersions() {
    setText(title, "Versions of " + shown.ref);
    replace(versionBody, ...shown.versions.map(versionRow));
    more.hidden = !shown.more;
  }

  function versionRow(v, i) {
    const now = v.number === shown.current;
    const older = shown.versions[i + 1];
    const see = (text, label, from, to) => h("button", { type: "button", text, "aria-label": label, onclick: () => {
      change({ from: String(from), to: String(to) });
      diffTitle.focus();
    } });
    return h("tr", { "data-key": v.number },
      h("th", { scope: "row", text: v.number + (now ? " now" : "") }), ...who(v),
      h("td", { class: "actions" },
        see("Content", "Content of version " + v.number, v.number, v.number), " ",
        older ? see("What changed", "What changed in version " + v.number, older.number, v.number) : null, " ",
        now ? null : see("Compare with now", "Compare with now: version " + v.number, v.number, shown.current), " ",
        now || !may ? null : h("button", { type: "button", icon: "undo", text: "Roll back…", "aria-label": "Roll back to version " + v.number, onclick: () => rollback(v) })));
  }

  const words = { "+": "added: ", "-": "removed: " };
  async function showDiff() {
    diffPart.hidden = !(params.from && params.to);
    if (diffPart.hidden) return;
    const { ref, from, to } = params;
    const mine = ++askedDiff;
    setText(diffTitle, from === to ? "Content of version " + visible(to) : "From version " + visible(from) + " to " + visible(to));
    let answer;
    try {
      answer = await app.get("defs.diff", { ref, from, to });
    } catch (e) {
      if (mine !== askedDiff) return;
      replace(diff);
      setText(diffNote, visible(e.message));
      return;
    }
    if (mine !== askedDiff) return;
    setText(diffNote, answer.rest ? answer.rest + " more lines are not shown." : from !== to && answer.equal ? "The two are equal." : "");
    replace(diff, ...answer.lines.map((line) => {
      const text = visible(line.slice(1));
      if (line[0] === "@") return h("span", { class: "gap", text: "⋯ " + text + (text === "1" ? " equal line\n" : " equal lines\n") });
      const tag = { "+": "ins", "-": "del" }[line[0]] || "span";
      // The sign is for eyes, the word for screen readers.
      return h(tag, {}, h("span", { "aria-hidden": "true", text: line[0] + " " }), words[line[0]] ? h("span", { class: "unseen", text: words[line[0]] }) : null, text + "\n");
    }));
  }

  async function rollback(v) {
    const { ref, current } = shown;
    change({ from: String(current), to: String(v.number) });
    const sure = await app.ask({
      title: "Roll back " + ref + " to version " + v.number + "?", action: "Roll back",
      text: "Its content becomes version " + (current + 1) + ". Version " + current + " is kept. The changes are shown below the versions. Marks such as disabled and the secret stay.",
    });
    if (!sure) return;
    setText(say, "Rolling back…");
    try {
      const res = await app.post("defs.rollback", { ref, version: v.number, current });
      load();
      change({ from: "", to: "" });
      await loadVersions();
      setText(say, [res.text, ...(res.warnings || [])].join(" "));
    } catch (e) {
      setText(say, visible(e.message));
    }
  }

  return {
    query: () => ({}),
    enter(path, now) {
      params = { ...now };
      show();
    },
    // The rights are known with the first message only.
    update() {
      const change = app.may("changes") && app.may("records");
      if (may === change) return;
      may = change;
      if (shown) showVersions();
    },
    leave() { clearTimeout(typing); },
  };
}
