// The shell: routes, the connection, pause, theme, zone, keys, dialogs and the status line.
//
// A page is a module with
//
//   export function open(section, app)   called once, with the empty section of the page (that of the overview is filled by the server)
//
// which returns an object of these, all but the first two optional for a page without a live part:
//
//   query()          parameters of the live part, as an object
//   update(state)    state is {at, top, head, rows, order, changed}: rows is a Map from key to cells, changed a Set of keys, or null when
//                    all may have changed
//   enter(path, params)  called with each address of the page: "#/sink/web/orders?x=1" has the path ["web", "orders"]
//   leave()          another page is opened
//
// and app offers: get, post, may, say, problem, ask, go, setParams, params, refresh, keys. See below.

import { h, setText, setAttr, setSentence, setClock, duration, plain, replace, useUTC, timeNode } from "./dom.js";
import { Live } from "./live.js";

const $ = (id) => document.getElementById(id);
const root = document.documentElement;
const store = {
  get: (name) => { try { return localStorage.getItem("forebay." + name); } catch { return null; } },
  set: (name, value) => { try { localStorage.setItem("forebay." + name, value); } catch { /* it is not kept */ } },
};

let hello = { pages: [...document.querySelectorAll("#links a")].map((a) => ({ name: a.hash.slice(2), title: a.textContent, hidden: a.hidden })), may: [] };
let greet;
const greeted = new Promise((resolve) => { greet = resolve; }); // with the first message of the server
let state = { rows: new Map(), order: [], head: null, top: null, tasks: [] };
let current = null; // {name, section, page}
let sequence = 0;
const opened = new Map();
let mode = "connecting", modeSince = 0;

const app = {
  // get and post answer with JSON, or throw an Error with the server's sentence as its message, its status, and its answer as body.
  get: (name, query) => call(name + (query ? "?" + new URLSearchParams(query) : ""), {}),
  post: async (name, body) => {
    await greeted; // the proof comes with it
    return call(name, { method: "POST", body: JSON.stringify(body || {}), headers: { "Content-Type": "application/json", "Forebay-Page": hello.proof || "" } });
  },
  // has says whether there is a page of this name that the user may see.
  has: (name) => hello.pages.some((p) => p.name === name),
  // may says whether the user has a right: numbers, records, changes.
  may: (right) => hello.may.includes(right),
  // say tells screen readers what happened; problem shows an error until the next one or null.
  say: (text) => announce(text),
  problem: (text) => {
    $("problem").hidden = !text;
    setText($("problem"), text || "");
  },
  // ask shows a dialog before something is destroyed, with the focus on Cancel. A count above 1,000 must be typed. body gets a function that
  // names the action and returns more nodes. It resolves to true or false, with why to { why } or false: it then asks for a reason, which may be empty.
  ask,
  go: (hash) => { location.hash = hash; },
  // params are those of the address; setParams replaces them, without a step in the history, and asks the server again. Of a page that the viewer has
  // left, while the next one is loaded, it does nothing: the address is that of the next one already.
  params: () => route().params,
  setParams: (params) => {
    if (pageOf(route()) !== current.name) return;
    const kept = Object.fromEntries(Object.entries(params).filter(([, v]) => v !== "" && v !== null && v !== undefined));
    const text = new URLSearchParams(kept).toString();
    history.replaceState(history.state, "", "#/" + route().parts.map(encodeURIComponent).join("/") + (text ? "?" + text : ""));
    app.refresh();
  },
  refresh: () => live.restart(),
  // state of the last messages.
  state: () => state,
};

async function call(url, init) {
  let response;
  try {
    response = await fetch(url, { cache: "no-store", ...init });
  } catch {
    throw new Error("The server does not respond.");
  }
  const body = await response.json().catch(() => ({}));
  if (!response.ok) {
    throw Object.assign(new Error(body.error || "The server returned " + response.status + "."), { status: response.status, body });
  }
  const warning = response.headers.get("X-Stream-Warning");
  if (warning) app.problem(warning);
  return body;
}

// Routes

function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  let parts;
  try {
    parts = path.split("/").filter((p) => p !== "").map(decodeURIComponent);
  } catch {
    parts = [];
  }
  return { parts: parts.length ? parts : ["overview"], params: Object.fromEntries(new URLSearchParams(query || "")) };
}

// pageOf is the page that is shown at a route: the overview if there is none of that name.
function pageOf({ parts }) {
  return hello.pages.some((p) => p.name === parts[0]) ? parts[0] : "overview";
}

// focused is what had the focus when an address was left: going back gives it back. A new page gets it as a whole.
const focused = new Map();
let here = "", steps = 0;

async function follow() {
  const { parts, params } = route();
  const name = pageOf({ parts });
  app.problem(name === parts[0] || parts[0] === "overview" ? null : "There is no page “" + parts[0] + "”, or your token has no right to see it.");
  if (!opened.has(name)) {
    let section = document.querySelector('section[data-page="' + name + '"]');
    if (!section) {
      section = h("section", { "data-page": name, "aria-label": hello.pages.find((p) => p.name === name).title, hidden: true });
      $("page").append(section);
    }
    let module;
    try {
      module = await import("./" + name + ".js");
    } catch (e) {
      app.problem("The page cannot be loaded: " + e.message);
      return;
    }
    if (!opened.has(name)) opened.set(name, { name, section, page: module.open(section, app) });
    if (route().parts[0] !== name && name !== "overview") return follow();
  }
  const next = opened.get(name);
  const left = current;
  if (left) focused.set(here, document.activeElement);
  if (focused.size > 50) focused.delete(focused.keys().next().value);
  here = location.hash;
  // A page that the viewer comes back to has no new step in the history.
  const back = history.state?.step !== undefined;
  if (!back) history.replaceState({ step: ++steps }, "");
  if (current !== next) {
    try {
      current?.page.leave?.();
    } catch (e) {
      console.error(e); // the page that fails must not keep the user
    }
    for (const other of $("page").querySelectorAll("section[data-page]")) other.hidden = other !== next.section;
    current = next;
    root.dataset.page = name;
    state = { ...state, rows: new Map(), order: [], head: null };
    markLink();
  }
  next.page.enter?.(parts.slice(1), params);
  if (left && left !== next) {
    const before = back ? focused.get(here) : null;
    (before?.isConnected && before.checkVisibility() && next.section.contains(before) ? before : $("page")).focus({ preventScroll: !back });
  } else if (left && !back && next.section.contains(document.activeElement) && document.activeElement.matches("a")) {
    $("page").focus({ preventScroll: true }); // a link that chose what the page shows may be gone with the choice
  }
  live.restart();
}

// Messages

const live = new Live({
  query: () => new URLSearchParams({ page: current.name, ...(current.page.query?.() || {}) }).toString(),
  onHello(m) {
    if (hello.schema && hello.schema !== m.schema) location.reload();
    const before = hello.pages.map((p) => p.name).join();
    hello = m;
    greet();
    if (before !== m.pages.map((p) => p.name).join() || !$("links").children.length) showLinks();
  },
  onMessage(m, whole) {
    state.at = m.at || state.at;
    if (m.at) setClock(m.at);
    if (m.top) showTop(m.top);
    if (m.tasks) showTasks(m.tasks);
    hadTasks = true;
    if (whole) state.rows = new Map();
    if (m.head) state.head = m.head;
    const changed = whole ? null : new Set();
    for (const [key, ...cells] of m.rows || []) {
      state.rows.set(key, cells);
      changed?.add(key);
    }
    if (m.order || whole) {
      state.order = m.order || [];
      const known = new Set(state.order);
      for (const key of state.rows.keys()) if (!known.has(key)) state.rows.delete(key);
    }
    try {
      current.page.update?.({ ...state, changed });
    } catch (e) {
      app.problem("This page cannot show what the server sent: " + e.message);
      console.error(e);
    }
    root.dataset.seq = ++sequence;
  },
  onMode(m, since) {
    mode = m;
    modeSince = since || Date.now();
    showStatus();
  },
});

function showTop(top) {
  const before = state.top;
  state.top = top;
  root.dataset.state = top.state;
  setAttr($("verdict"), "data-state", top.state);
  setSentence($("verdict"), top.verdict);
  setSentence($("banner"), top.banner);
  $("banner").hidden = !top.banner;
  showTitle();
  if (before && before.state !== top.state) announce(plain(top.verdict));
}

// showTitle writes the verdict as the title of the tab, with times as they are now.
function showTitle() {
  const title = plain(state.top.verdict) + (hello.name ? " · " + hello.name : "") + " · forebay";
  if (document.title !== title) document.title = title;
}

// Announcements are joined, and made at most once in 10 s.
let waiting = [], spoke = 0, speaking = 0;
function announce(text) {
  waiting.push(text);
  clearTimeout(speaking);
  speaking = setTimeout(() => {
    spoke = Date.now();
    setText($("announce"), waiting.join(" "));
    waiting = [];
  }, Math.max(50, spoke + 10000 - Date.now()));
}

const words = {
  connecting: "connecting",
  live: "live",
  poll: "every 2 s",
  full: "too many viewers: refreshed every 10 s",
  paused: "paused",
  closed: "the engine is closed",
  signin: "the session has ended",
};

function showStatus() {
  const age = Date.now() - live.lastAt;
  const stale = age > 5000 && mode !== "paused" && mode !== "full";
  root.dataset.mode = mode;
  setAttr(root, "data-stale", stale || mode === "away" || mode === "signin" ? "" : null);
  let parts = [words[mode] || mode];
  if (mode === "away") {
    const clock = h("time", { datetime: new Date(modeSince).toISOString(), text: new Date(modeSince).toLocaleTimeString("en-GB") });
    parts = ["server away since ", clock, ", numbers are " + duration(age) + " old"];
  } else if (mode === "signin") {
    parts = [words.signin + ": ", h("a", { href: "signin", text: "sign in again" })];
  } else if (stale || mode === "paused") {
    parts = [words[mode] + ", numbers are " + duration(age) + " old"];
  }
  const text = parts.map((p) => p.textContent ?? p).join("");
  if ($("status").textContent !== text) replace($("status"), ...parts);
  if (state.top) showTitle();
}
setInterval(showStatus, 1000);

let hadTasks = false; // the tasks that were there when the page was opened are shown
function showTasks(tasks) {
  state.tasks = tasks;
  const list = $("tasks");
  list.hidden = !tasks.length;
  const known = new Map([...list.children].map((li) => [li.dataset.id, li]));
  for (const t of tasks) {
    let li = known.get(String(t.id));
    known.delete(String(t.id));
    if (!li) {
      li = h("li", { "data-id": t.id }, h("span"), " ");
      if (t.state === "running") {
        li.append(h("button", {
          type: "button", text: "Stop waiting", "aria-label": "Stop waiting for: " + t.title,
          onclick: () => app.post("task.cancel", { ID: t.id }).catch((e) => app.problem(e.message)),
        }));
      }
      list.append(li);
    }
    const text = t.title + ": " + (t.error || (t.state === "running" ? t.progress || "running" : t.progress ? t.progress + ", " + t.state : t.state));
    // A task may have ended before the page has heard of it.
    if (hadTasks && li.dataset.state !== t.state && t.state !== "running") announce(text);
    setAttr(li, "data-state", t.state);
    setText(li.firstChild, text);
    if (t.state !== "running") li.querySelector("button")?.remove();
  }
  for (const li of known.values()) li.remove();
}

// markLink marks the link of the current page and scrolls the line of links to it, on a phone.
function markLink() {
  const links = $("links");
  for (const a of links.children) {
    const here = a.hash === "#/" + current?.name;
    setAttr(a, "aria-current", here ? "page" : null);
    if (here) links.scrollLeft = a.offsetLeft - links.offsetLeft - (links.clientWidth - a.offsetWidth) / 2;
  }
}

function showLinks() {
  replace($("links"), ...hello.pages.filter((p) => !p.hidden).map((p) => h("a", { href: "#/" + p.name, icon: p.name, text: p.title })));
  markLink();
  if (current && !hello.pages.some((p) => p.name === current.name)) follow();
}

// Tools

// The address is the page, so the link to the contents must not change it.
document.querySelector(".skip").addEventListener("click", (e) => {
  e.preventDefault();
  $("page").focus();
});

function setPaused(on) {
  setAttr($("pause"), "aria-pressed", String(on));
  setText($("pause").lastElementChild, on ? "Resume" : "Pause");
  setAttr($("pause").querySelector("use"), "href", on ? "#i-replay" : "#i-pause");
  live.pause(on);
}
$("pause").addEventListener("click", () => setPaused(!live.paused));

const themes = ["auto", "light", "dark"];
function setTheme(theme) {
  setAttr(root, "data-theme", theme === "auto" ? null : theme);
  setText($("theme").lastElementChild, "Theme: " + theme);
  store.set("theme", theme);
  root.dispatchEvent(new Event("themechange"));
}
$("theme").addEventListener("click", () => setTheme(themes[(themes.indexOf(store.get("theme") || "auto") + 1) % 3]));

function setZone(utc) {
  useUTC(utc);
  setText($("zone").lastElementChild, utc ? "UTC" : "Local time");
  setAttr($("zone"), "aria-pressed", String(utc));
  store.set("utc", utc ? "1" : "");
}
$("zone").addEventListener("click", () => setZone(!store.get("utc")));

// Keys

let keysOff = store.get("keysOff") === "1";
let afterG = 0;
const typing = (node) => node.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(node.tagName);

function rowsOfPage() {
  return [...current.section.querySelectorAll("tbody tr, [data-row]")].filter((r) => r.offsetParent !== null);
}

function moveRow(by) {
  const rows = rowsOfPage();
  if (!rows.length) return;
  const at = rows.findIndex((r) => r.contains(document.activeElement));
  const next = rows[Math.max(0, Math.min(rows.length - 1, at < 0 ? 0 : at + by))];
  const target = next.querySelector("a, button") || next;
  if (target === next) setAttr(next, "tabindex", "-1");
  target.focus();
}

document.addEventListener("keydown", (e) => {
  if (keysOff || e.ctrlKey || e.metaKey || e.altKey || typing(e.target) || document.querySelector("dialog[open]")) return;
  const g = Date.now() - afterG < 1500;
  afterG = 0;
  const page = g && hello.pages.find((p) => p.key === e.key);
  if (page) app.go("#/" + page.name);
  else if (e.key === "g") { afterG = Date.now(); return; }
  else if (e.key === "/") current.section.querySelector('input[type="search"]')?.focus();
  else if (e.key === "j") moveRow(1);
  else if (e.key === "k") moveRow(-1);
  else if (e.key === "p") setPaused(!live.paused);
  else if (e.key === "?") showKeys();
  else return;
  e.preventDefault();
});

function dialog(title, ...children) {
  const id = "dialog-title";
  const node = h("dialog", { "aria-labelledby": id }, h("h2", { id, text: title }), ...children);
  node.addEventListener("close", () => node.remove());
  document.body.append(node);
  node.showModal();
  return node;
}

function showKeys() {
  const off = h("input", { type: "checkbox", id: "keys-off", checked: keysOff, onchange: (e) => { keysOff = e.target.checked; store.set("keysOff", keysOff ? "1" : ""); } });
  const list = [["/", "filter"], ["j, k", "next and previous row"], ["Enter", "open"], ["p", "pause"], ["?", "this list"],
    ...hello.pages.filter((p) => p.key && !p.hidden).map((p) => ["g " + p.key, p.title])];
  const d = dialog("Keyboard shortcuts",
    h("dl", { class: "keys" }, ...list.flatMap(([k, what]) => [h("dt", {}, h("kbd", { text: k })), h("dd", { text: what })])),
    h("p", {}, off, " ", h("label", { for: "keys-off", text: "Turn shortcuts off" })),
    h("button", { type: "button", text: "Close", autofocus: true, onclick: () => d.close() }));
}
$("keys").addEventListener("click", showKeys);

// The menu closes with Escape, which gives the focus back, and with a press elsewhere.
$("menu").addEventListener("keydown", (e) => {
  if (e.key !== "Escape" || !$("menu").open) return;
  $("menu").open = false;
  $("menu").firstElementChild.focus();
});
document.addEventListener("pointerdown", (e) => {
  if (!$("menu").contains(e.target)) $("menu").open = false;
});

function ask({ title, text, action, count, body, why }) {
  return new Promise((resolve) => {
    let sure = false;
    const typed = count > 1000 ? h("input", { type: "text", inputmode: "numeric", autocomplete: "off", id: "typed-count" }) : null;
    const reason = why ? h("input", { type: "text", autocomplete: "off", maxlength: "250", id: "why" }) : null;
    const cancel = h("button", { type: "button", text: "Cancel", autofocus: true, onclick: () => d.close() });
    const ok = h("button", { type: "button", class: "danger", text: action, onclick: () => { sure = true; d.close(); } });
    if (typed) {
      ok.disabled = true;
      typed.addEventListener("input", () => { ok.disabled = typed.value.replace(/\D/g, "") !== String(count); });
    }
    const d = dialog(title, h("p", { text }), ...(body ? body((word) => setText(ok, word)) : []),
      typed && h("p", {}, h("label", { for: "typed-count", text: "Type " + count + " to confirm: " }), typed),
      reason && h("p", {}, h("label", { for: "why", text: "Reason, for the log: " }), reason),
      h("p", { class: "choices" }, cancel, ok));
    d.addEventListener("close", () => resolve(sure && reason ? { why: reason.value } : sure));
    cancel.focus();
  });
}

// Start

$("tools").hidden = $("menu").hidden = $("pause").hidden = false;
setTheme(store.get("theme") || "auto");
setZone(!!store.get("utc"));
window.addEventListener("hashchange", follow);
await follow();
root.dataset.ready = "";
