// The overview: tiles and the table of sinks. The server has written the same nodes: see document.html.

import { h, noSink, pageSize, replace, setText, setAttr, setCell, setSentence, sinkLink } from "./dom.js";
import { newPicture } from "./picture.js";
import { newPlots } from "./plots.js";

export function open(section, app) {
  const $ = (id) => section.querySelector("#" + id);
  const body = $("sinks").tBodies[0];
  const filter = $("filter");
  let pending = null; // an order that waits until nobody points at the table
  let params = {};
  const picture = newPicture();
  const levels = h("h2", { class: "unseen", text: "Levels" });
  $("picture").append(levels, picture.node);
  const plots = newPlots(app);
  $("plots").append(plots.node);

  filter.parentNode.hidden = false;
  let typing = 0;
  filter.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => change({ filter: filter.value, from: "" }), 250);
  });
  filter.addEventListener("keydown", (e) => { if (e.key === "Escape") filter.blur(); });

  // The heads of columns become buttons that sort: falling, rising, by trouble again.
  for (const th of section.querySelectorAll("th[data-sort]")) {
    const name = th.dataset.sort;
    const first = name === "name" ? "name" : "-" + name;
    const second = name === "name" ? "-name" : name;
    const button = h("button", { type: "button", text: th.textContent, onclick: () => {
      const now = params.sort || "";
      change({ sort: now === first ? second : now === second ? "" : first, from: "" });
    } });
    th.replaceChildren(button);
  }
  $("before").addEventListener("click", () => change({ from: String(Math.max(0, (Number(params.from) || 0) - pageSize)) }));
  $("after").addEventListener("click", () => change({ from: String((Number(params.from) || 0) + pageSize) }));
  $("reorder").addEventListener("click", () => { apply(pending); body.querySelector("a, button")?.focus(); });

  function change(some) {
    params = { ...params, ...some };
    if (params.from === "0") params.from = "";
    forced = true;
    app.setParams(params);
    showSort();
  }
  let forced = true; // the viewer asked for another order, so it is shown at once

  function showSort() {
    for (const th of section.querySelectorAll("th[data-sort]")) {
      const sort = (params.sort || "").replace(/^-/, "");
      setAttr(th, "aria-sort", sort !== th.dataset.sort ? null : params.sort.startsWith("-") ? "descending" : "ascending");
    }
  }

  function newRow(key) {
    const cell = (label) => h("td", { class: "n", "data-label": label }, h("span"));
    const level = (label) => h("td", { class: "n", "data-label": label }, h("span"), " ", h("small"));
    return h("tr", { "data-key": key },
      h("td", { class: "state" }, h("span")), h("th", { scope: "row" }, sinkLink(key)),
      cell("In/s"), level("Local"), level("Staging"), cell("Out/s"), cell("In table"), cell("Rejected"), h("td", { class: "why" }, h("span")));
  }

  // The server writes names without links, because it has no page of a sink without script.
  for (const th of body.querySelectorAll("th")) th.replaceChildren(sinkLink(th.textContent));

  // The number of rejected records leads to them.
  function showRejected(td, rejected, key) {
    const wanted = rejected !== "0" && app.has("quarantine") ? "A" : "SPAN";
    if (td.firstElementChild.tagName !== wanted) {
      td.replaceChildren(wanted === "A" ? h("a", { href: "#/quarantine?" + new URLSearchParams({ sink: key }) }) : h("span"));
    }
    setCell(td.firstElementChild, rejected);
  }

  // The button beside a failure repeats it at once.
  function offerRetry(td, key, state) {
    const wanted = (state === "blocked" || state === "fails") && app.may("changes");
    const there = td.querySelector("button");
    if (wanted && !there) {
      const [source, sink] = key.split("/");
      td.append(" ", h("button", { type: "button", icon: "retry", text: "Retry now", "aria-label": "Retry now: " + key, onclick: async () => {
        app.problem(null);
        try {
          await app.post("sink.retry", { source, sink });
          app.say("A new attempt has started.");
        } catch (e) {
          app.problem(e.message);
        }
      } }));
    } else if (!wanted) {
      there?.remove();
    }
  }

  function fill(tr, [state, incoming, localRows, localAge, stagingRows, stagingAge, out, table, rejected, why]) {
    const c = tr.cells;
    setAttr(c[0], "data-state", state);
    setText(c[0].firstElementChild, state);
    setCell(c[2].firstElementChild, incoming);
    setCell(c[3].firstElementChild, localRows);
    setCell(c[3].lastElementChild, localAge);
    setCell(c[4].firstElementChild, stagingRows);
    setCell(c[4].lastElementChild, stagingAge);
    setCell(c[5].firstElementChild, out);
    setCell(c[6].firstElementChild, table);
    showRejected(c[7], rejected, tr.dataset.key);
    setSentence(c[8].firstElementChild, why);
    offerRetry(c[8], tr.dataset.key, state);
  }

  // linked returns the link in a line that leads to a page, or the line if there is no such page.
  function linked(line, page) {
    const there = line.querySelector("a");
    if (!page || !app.has(page.split("/")[0])) {
      if (there) line.sentence = undefined;
      return line;
    }
    if (!there) {
      replace(line, h("a"));
      line.sentence = undefined;
    }
    setAttr(line.firstElementChild, "href", "#/" + page);
    return line.firstElementChild;
  }

  function rowsByKey() {
    return new Map([...body.rows].map((tr) => [tr.dataset.key, tr]));
  }

  // apply puts the rows into an order. Rows that stay keep their nodes, and with them the focus.
  function apply(order) {
    pending = null;
    $("reorder").hidden = true;
    if (!order) return;
    const known = rowsByKey();
    const { rows } = app.state();
    let at = body.firstElementChild;
    for (const key of order) {
      let tr = known.get(key);
      if (!tr) fill((tr = newRow(key)), rows.get(key));
      known.delete(key);
      if (tr === at) at = at.nextElementSibling;
      else body.insertBefore(tr, at);
    }
    for (const tr of known.values()) tr.remove();
  }

  return {
    leave() { clearTimeout(typing); },

    query: () => ({ filter: params.filter || "", sort: params.sort || "", from: params.from || "" }),

    enter(path, now) {
      params = { ...now };
      forced = true;
      if (document.activeElement !== filter) filter.value = params.filter || "";
      showSort();
    },

    update({ head, rows, order, changed }) {
      if (!head) return;
      head.tiles.forEach((tile, i) => {
        const node = $("tiles").children[i];
        setAttr(node, "data-state", tile.state || null);
        setCell(node.querySelector(".value span"), tile.value);
        node.querySelectorAll(".line").forEach((line, j) => setSentence(j ? line : linked(line, tile.page), tile.lines[j]));
      });
      picture.update(head.picture);
      setText(levels, "Levels of " + head.picture.of);
      setAttr(levels, "class", params.filter ? null : "unseen"); // it is about all, unless somebody has asked for less
      plots.update();
      const known = rowsByKey();
      for (const key of changed || rows.keys()) {
        const tr = known.get(key);
        if (tr) fill(tr, rows.get(key));
      }
      const shown = [...known.keys()];
      if (shown.length !== order.length || shown.some((key, i) => key !== order[i])) {
        const busy = body.contains(document.activeElement) || body.matches(":hover");
        if (forced || !busy || !shown.length) {
          apply(order);
        } else {
          pending = order;
          const moved = order.filter((key, i) => shown[i] !== key).length;
          setText($("reorder"), moved + (moved === 1 ? " change" : " changes") + " – apply");
          $("reorder").hidden = false;
        }
      } else if (pending) {
        apply(order);
      }
      if (changed === null) forced = false;
      setText($("range"), order.length ? [head.from + 1, head.from + order.length, head.matching].map((n) => n.toLocaleString("en")).reduce((a, b, i) => a + (i === 1 ? "–" : " of ") + b) : "none");
      $("before").hidden = head.from === 0;
      $("after").hidden = head.from + order.length >= head.matching;
      $("empty").hidden = order.length > 0;
      setText($("empty"), head.sinks ? "No sink matches the filter." : noSink);
    },
  };
}
