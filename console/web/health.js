// Health: readiness, room and memory, the recount of the ledger, damage on the disk, and the nodes of a cluster.

import { h, factNodes, head, shortId, newPager, shortIds, sinkLink, setSentence, setText, setAttr, setCell, replace, timeNode } from "./dom.js";

const numbers = new Set(["Rows", "Bytes", "Epoch"]); // the columns that have them
const every = 5000; // disk and nodes are asked so often while the page is open

export function open(section, app) {
  // What changes here is announced already: readiness with the verdict of all pages, the outcome of a check with the end of its task.
  const ready = h("p", { class: "verdict" });
  const facts = h("dl", { class: "facts" });
  const free = h("dd", { text: "–" });
  const verify = h("button", { type: "button", icon: "check", text: "Verify", hidden: true, onclick: run });
  const verified = h("p", { class: "verdict" });
  const differences = h("ul", { class: "problems" });
  const damageNote = h("p"), damage = h("div"), nodesNote = h("p"), nodes = h("div");
  // Each list has pages. from are the numbers of lines before the ones that are shown.
  const from = { differences: 0, damage: 0, nodes: 0 };
  const pagerOf = (name, read) => newPager((n) => { from[name] = n; read(); });
  const differencePager = pagerOf("differences", () => app.refresh()), damagePager = pagerOf("damage", () => ask()), nodePager = pagerOf("nodes", () => ask());
  const cluster = h("section", { class: "records", "aria-label": "Cluster", hidden: true }, h("h2", { text: "Cluster" }), nodesNote, nodes, nodePager.node);
  section.append(
    h("h2", { text: "Engine" }), ready, facts,
    h("section", { class: "records", "aria-label": "Ledger" },
      h("div", { class: "tablebar" }, h("h2", { text: "Ledger" }), verify),
      h("p", { class: "muted", text: "Verify reads all waiting rows, counts them, and compares them with the counters. It continues if you close this page." }),
      verified, differences, differencePager.node),
    h("section", { class: "records", "aria-label": "Damage" }, h("h2", { text: "Damage" }), damageNote, damage, damagePager.node),
    cluster);
  let timer = 0, damages = -1;

  async function run() {
    app.problem(null);
    verify.disabled = true;
    try {
      await app.post("health.verify");
      app.say("The check runs.");
    } catch (e) { app.problem(e.message); }
    verify.disabled = false;
  }

  async function forget(id) {
    app.problem(null);
    try {
      await app.post("health.forget", { id });
      app.say("The record is removed.");
      ask();
    } catch (e) { app.problem(e.message); }
  }

  // Each part has its own request, so that a disk or a server that hangs holds up nothing else.
  const polls = [["health.disk", showDisk, damageNote, "damage"], ["health.nodes", showNodes, nodesNote, "nodes"]].map(([name, show, note, list]) => {
    let under = false;
    return async function poll() {
      if (under || (name === "health.nodes" && cluster.hidden)) return;
      under = true;
      const asked = from[list];
      try {
        const got = await app.get(name, { from: asked });
        if (asked === from[list]) {
          from[list] = got.from;
          show(got);
        }
      } catch (e) { setText(note, e.message); }
      under = false;
      if (asked !== from[list] && !document.hidden) poll(); // another page was asked for meanwhile, or the list has become shorter
    };
  });

  function ask() {
    if (!document.hidden && document.documentElement.dataset.mode !== "paused") for (const poll of polls) poll();
  }

  function showDisk(d) {
    setCell(free, d.free);
    setText(damageNote, d.problem || (!d.records ? "No stored row was ever found damaged, as far as records are kept."
      : d.records === 1 ? "1 record of rows that are lost." : d.records + " records of rows that are lost" + "."));
    damagePager.show(d.from, d.damage.length, d.records);
    show(damage, d.damage, "Damage", ["Found", "Sink", "Rows", "Bytes", "File", "Reason", "Action"], (r) => {
      const bytes = h("span");
      setCell(bytes, r.size);
      return [timeNode(r.at), r.sink.includes("/") ? sinkLink(r.sink) : r.sink ? shortId(r.sink) : "all sinks", r.rows, bytes, r.file ? shortId(r.file) : "–",
        (r.reason || (app.may("records") ? "–" : "needs the right to records")) + (r.store ? " Set aside in " + r.store + "." : ""),
        app.may("changes") ? h("button", { type: "button", icon: "discard", text: "Remove", onclick: () => forget(r.id) }) : "–"];
    });
    section.dataset.disk = Number(section.dataset.disk || 0) + 1;
  }

  function takenOver(r) {
    const lists = [shortIds("adopting", r.adopting), shortIds("adopted", r.adopted), shortIds("damaged:", r.damaged)].filter((l) => l.length);
    return lists.length ? h("span", {}, ...lists.flatMap((l) => ["; ", ...l]).slice(1)) : "none";
  }

  function showNodes(n) {
    setText(nodesNote, n.problem || (n.away ? n.away + " of " + n.count + " nodes " + (n.away === 1 ? "is" : "are") + " not ready." : n.count + " nodes, all ready."));
    nodePager.show(n.from, n.nodes.length, n.count);
    show(nodes, n.nodes, "Nodes", ["Node", "State", "Instance", "Epoch", "Log", "Copies behind", "Instances taken over"], (r) => [
      shortId(r.name),
      h("span", {}, h("span", { class: "state", "data-state": r.ready ? "flows" : "blocked", text: r.ready ? "ready" : "not ready" }), r.missing ? ": " + r.missing : null),
      r.instance ? shortId(r.instance) : "–", r.epoch, r.log, r.lag,
      takenOver(r),
    ]);
  }

  // show makes a table, or changes nothing if it is there already.
  function show(box, list, name, heads, cells) {
    const key = JSON.stringify(list);
    if (box.dataset.shown === key) return;
    box.dataset.shown = key;
    replace(box, list.length ? h("table", { class: "cards" }, h("caption", { class: "unseen", text: name }),
      h("thead", {}, h("tr", {}, ...heads.map((text) => head(text, numbers.has(text) ? "n" : null)))),
      h("tbody", {}, ...list.map((r) => h("tr", {}, ...cells(r).map((c, i) => h(i ? "td" : "th", i ? { "data-label": heads[i], class: numbers.has(heads[i]) ? "n" : "message" } : { scope: "row" }, c)))))) : null);
  }

  return {
    query: () => ({ from: from.differences || "" }),
    update(state) {
      const head = state.head;
      if (!head) return;
      verify.hidden = !app.may("changes"); // known with the first message
      setSentence(ready, head.readiness);
      setAttr(ready, "data-state", head.ready ? "ok" : "error");
      const key = JSON.stringify(head.facts);
      if (facts.dataset.shown !== key) {
        facts.dataset.shown = key;
        replace(facts, ...factNodes(head.facts), h("dt", { text: "Free on the volume" }), free);
      }
      setSentence(verified, head.verified);
      setAttr(verified, "data-state", head.state || null);
      replace(differences, ...(head.differences || []).map((text) => h("li", { text })));
      differencePager.show(head.from, head.differences?.length || 0, head.different);
      const shown = cluster.hidden;
      cluster.hidden = !head.cluster;
      if (damages !== head.damages || shown !== cluster.hidden) ask();
      damages = head.damages;
    },
    enter() {
      clearInterval(timer);
      timer = setInterval(ask, every);
      ask();
    },
    leave() { clearInterval(timer); },
  };
}
