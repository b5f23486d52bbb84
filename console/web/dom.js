// Nodes are made here and never from markup, so that nothing that strangers have written becomes more than text.

// h makes an element. Props are attributes, except: on* functions are listeners, "class" and "text" are what they say, and a property that is
// false, null or undefined is left out. An icon comes before the text. Children are nodes and strings.
export function h(tag, props, ...children) {
  const node = document.createElement(tag);
  let drawing = null;
  for (const [name, value] of Object.entries(props || {})) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "text") node.textContent = value;
    else if (name === "icon") drawing = icon(value);
    else if (name === "style" || name === "srcdoc") throw new Error(name + " is refused by the policy");
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((c) => c !== null && c !== undefined && c !== false));
  if (drawing) node.prepend(drawing);
  return node;
}

// icon returns a drawing of the sprite in document.html. A text next to it has the same meaning.
function icon(name) {
  return svg("svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true" }, svg("use", { href: "#i-" + name }));
}

// svg makes an element of a drawing. Lengths are attributes, because the policy refuses style attributes.
export function svg(tag, props, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(props || {})) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// head is the head of a column. The column of buttons has no text: its name is for screen readers.
export function head(text, kind) {
  return h("th", { scope: "col", class: kind }, text || h("span", { class: "unseen", text: "Actions" }));
}

// longestId is the number of characters of an id that is shown whole.
const longestId = 32;

// shortId shows both ends of a long id, and all of it as its title. Of an id of parts, such as "source/sink", each part is cut alone.
export function shortId(id, tag = "span", props = {}) {
  const whole = visible(id);
  const text = whole.split("/").map((part) => (part.length > longestId ? part.slice(0, 18) + "…" + part.slice(-10) : part)).join("/");
  return h(tag, { ...props, title: text === whole ? null : whole, text });
}

// shortIds shows a few of many ids, after a word.
export function shortIds(word, ids, few = 5) {
  if (!ids.length) return [];
  const rest = ids.length - few;
  return [word + " ", ...ids.slice(0, few).flatMap((id) => [", ", shortId(id)]).slice(1), rest > 0 ? h("span", { title: ids.slice(few).join(", "), text: " and " + rest.toLocaleString("en") + " more" }) : null];
}

// sinkHash is the address of the page of a sink "source/sink", sinkLink a link to it.
export const sinkHash = (id) => "#/sink/" + id.split("/").map(encodeURIComponent).join("/");
export const sinkLink = (id) => shortId(id, "a", { href: sinkHash(id) });

// factNodes are names with values, of which a value without a space may be a long id.
export const factNodes = (facts) => facts.flatMap((f) => [h("dt", { text: f.name }),
  h("dd", {}, /\s/.test(f.value) ? f.value : shortId(f.value), f.note ? " " : null, f.note ? h("small", { text: f.note }) : null)]);

// pageSize is the number of lines of a list that are shown at once. The server has the same number.
export const pageSize = 50;

// newPager makes the buttons and the range below a list. Its go is called with the number of lines to skip.
export function newPager(go) {
  let from = 0;
  const step = (text, by) => h("button", { type: "button", text, onclick: () => go(Math.max(0, from + by)) });
  const range = h("span"), before = step("Previous", -pageSize), after = step("Next", pageSize);
  const node = h("span", { class: "pager", hidden: true }, before, " ", range, " ", after);
  // show tells which lines of all are in the list.
  function show(first, lines, all) {
    from = first;
    setText(range, lines ? [first + 1, first + lines].map((n) => n.toLocaleString("en")).join("–") + " of " + all.toLocaleString("en") : "none");
    before.hidden = first === 0;
    after.hidden = first + lines >= all;
    node.hidden = all <= pageSize;
  }
  return { node, show };
}

// choices are links to a page of each sink, for a page that needs one.
export function choices(page, names) {
  if (!names?.length) return [noSink];
  return ["Choose a sink: ", ...names.slice(0, 20).flatMap((name) =>
    [" · ", h("a", { href: "#/" + page + "/" + name.split("/").map(encodeURIComponent).join("/"), text: visible(name) })]).slice(1), ...(names.length > 20 ? [" · ", h("a", { href: "#/overview", text: "all sinks" })] : [])];
}

export const noSink = "No sink is defined yet. A program, a configuration file or the Stream API defines sources with their sinks.";

// setText changes a text only if it differs, so that selections survive.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setAttr(node, name, value) {
  if (value === null || value === undefined || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else if (node.getAttribute(name) !== String(value)) {
    node.setAttribute(name, value);
  }
}

// setCell shows a cell of the server: a text, a rounded text with its exact value, or a time that runs.
export function setCell(node, cell) {
  if (cell !== null && typeof cell === "object" && !Array.isArray(cell)) return setSentence(node, [cell]);
  node.sentence = undefined;
  const [text, exact] = Array.isArray(cell) ? cell : [cell ?? "", null];
  setText(node, text);
  setAttr(node, "title", exact);
}

// replace puts children in place of those that are there.
export function replace(node, ...children) {
  node.replaceChildren(...children.filter((c) => c !== null && c !== undefined && c !== false));
}

const hiddenCharacters = /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu;

// visible marks characters that cannot be seen or that change the direction of others. With lines, line breaks and tabs stay.
export function visible(text, lines) {
  return text.replace(hiddenCharacters, (c) => {
    if (lines && (c === "\n" || c === "\t")) return c;
    return "‹U+" + c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0") + "›";
  });
}

let utc = false;

export const isUTC = () => utc;

// useUTC chooses the zone of all times. Times that are shown already change too.
export function useUTC(on) {
  utc = on;
  for (const node of document.querySelectorAll("time[datetime]")) showTime(node, new Date(node.dateTime));
}

function showTime(node, at) {
  const zone = utc ? { timeZone: "UTC" } : {};
  const today = new Date();
  const day = (d) => d.toLocaleDateString("en-CA", zone);
  let text = at.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", ...zone });
  if (day(at) !== day(today)) text = at.toLocaleDateString("en-GB", { day: "numeric", month: "short", ...zone }) + " " + text;
  setText(node, utc ? text + " UTC" : text);
  setAttr(node, "title", at.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "long", ...zone }));
}

// timeNode is a time of the server, in milliseconds, in the zone of the viewer.
export function timeNode(ms) {
  const node = h("time", { datetime: new Date(ms).toISOString() });
  showTime(node, new Date(ms));
  return node;
}

// Times that run: {until: ms} is the time left, {age: ms} the time since then. Both are of the clock of the server, and one timer counts them all.
let ahead = 0; // of this clock

export function setClock(serverMs) {
  ahead = Date.now() - serverMs;
}

const two = (n) => String(n).padStart(2, "0");

// duration has two units, as that of format.go.
export function duration(ms) {
  const s = Math.floor(ms / 1000);
  if (s < 1) return "now";
  if (s < 60) return s + " s";
  if (s < 3600) return Math.floor(s / 60) + " min " + two(s % 60) + " s";
  if (s < 86400) return Math.floor(s / 3600) + " h " + two(Math.floor(s / 60) % 60) + " min";
  return Math.floor(s / 86400) + " d " + two(Math.floor(s / 3600) % 24) + " h";
}

// coarse has one unit below an hour, as that of format.go.
function coarse(ms) {
  if (ms < 60e3) return Math.max(1, Math.floor(ms / 1000)) + " s";
  return ms < 3600e3 ? Math.floor(ms / 60e3) + " min" : duration(ms);
}

function count(node, now) {
  const at = node.running;
  setText(node, at.until !== undefined ? coarse(at.until - now) : now - at.age < 1000 ? "under 1 s" : duration(now - at.age));
}

// serverNow is the time of the server, in milliseconds.
export const serverNow = () => Date.now() - ahead;

function runningNode(at) {
  const node = h("span", { class: "running" });
  node.running = at;
  count(node, serverNow());
  return node;
}

setInterval(() => {
  if (document.hidden) return;
  const now = serverNow();
  for (const node of document.getElementsByClassName("running")) count(node, now);
}, 1000);

const partNode = (p) => (typeof p === "number" ? timeNode(p) : typeof p === "object" ? runningNode(p) : p);

// setSentence shows a sentence of the server: strings and times.
export function setSentence(node, parts) {
  const key = JSON.stringify(parts || []) + utc;
  if (node.sentence === key) return;
  node.sentence = key;
  replace(node, ...(parts || []).map(partNode));
}

// plain is a sentence as text.
export function plain(parts) {
  return (parts || []).map((p) => partNode(p).textContent ?? p).join("");
}
