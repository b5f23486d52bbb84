// The picture of the overview: the height of the water is the age of the oldest row, as a multiple of what the triggers promise. One is a
// dashed line; normal operation stays below it. Above four the column is cut, and the number tells.

import { h, svg, setText, setAttr, setCell, setSentence, serverNow } from "./dom.js";

const top = 4;
const unit = 90 / top; // of a drawing that is 100 high

const rowsWord = (cell) => (cell === "1" ? " row" : " rows");

export function newPicture() {
  const names = ["Local", "Staging"];
  const parts = names.map((name) => {
    const water = svg("rect", { class: "water", x: 0, width: 100, y: 100, height: 0 });
    const cut = svg("path", { class: "cut", d: "M0 24 l10 -6 10 6 10 -6 10 6 10 -6 10 6 10 -6 10 6 10 -6 10 6", visibility: "hidden" });
    const lines = [1, 2, 4].map((n) => svg("line", { class: "times", x1: 0, x2: 100, y1: 100 - n * unit, y2: 100 - n * unit }));
    const tank = h("div", { class: "tank", role: "meter", "aria-label": name, "aria-valuemin": 0, "aria-valuemax": top },
      svg("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true" }, water, cut, ...lines),
      ...[1, 2, 4].map((n) => h("span", { class: "mark x" + n, "aria-hidden": "true", text: n + "×" })));
    const rows = h("span"), word = h("span"), bytes = h("span"), age = h("p", { class: "age" });
    return {
      name, water, cut, tank, rows, word, bytes, age,
      node: h("div", { class: "level" }, h("h3", { text: name }), tank, h("p", {}, rows, word, " · ", bytes), age),
    };
  });
  const flow = () => h("span");
  const incoming = flow(), out = flow(), table = flow(), tableWord = flow(), newest = h("p", { class: "age" }), disk = h("p");
  const bar = svg("rect", { class: "water", x: 0, y: 0, width: 0, height: 4 });
  const node = h("div", { class: "picture" },
    h("p", { class: "stream" }, incoming, " rows/s →"), parts[0].node, h("p", { class: "stream", text: "→" }), parts[1].node,
    h("p", { class: "stream" }, out, " rows/s →"),
    h("div", { class: "level table" }, h("h3", { text: "Table" }), h("p", { class: "rows" }, table, tableWord), newest),
    h("div", { class: "disk" }, disk, svg("svg", { viewBox: "0 0 100 4", preserveAspectRatio: "none", "aria-hidden": "true" }, bar)));

  let shown = null;

  // rise sets the water of a level. It moves by steps of a pixel or so, because each change draws the picture again.
  function rise(level, part) {
    const times = level.oldest && level.within ? Math.max(0, serverNow() - level.oldest.age) / level.within : 0;
    const height = Math.round(2 * (Math.min(times, top) * unit + (times > top ? 10 : 0))) / 2;
    setAttr(part.water, "y", 100 - height);
    setAttr(part.water, "height", height);
    setAttr(part.cut, "visibility", times > top ? "visible" : "hidden");
    setSentence(part.age, level.oldest ? ["oldest ", level.oldest, " of " + level.promise +
      (times >= 2 ? ", " + times.toFixed(times < 9.95 ? 1 : 0) + " times the interval" : "") +
      (level.state ? ", " + level.state : "") + (level.at ? " · " + level.at : "")] : ["empty"]);
    setAttr(part.age, "data-state", level.state || null);
    setAttr(part.tank, "aria-valuenow", Math.min(times, top).toFixed(1));
    setAttr(part.tank, "aria-valuetext", part.name + ": " + part.rows.textContent + part.word.textContent + ", " + part.age.textContent);
  }

  setInterval(() => {
    if (shown && node.offsetParent && !document.hidden) shown.levels.forEach((level, i) => rise(level, parts[i]));
  }, 1000);

  function update(p) {
    shown = p;
    p.levels.forEach((level, i) => {
      setCell(parts[i].rows, level.rows);
      setText(parts[i].word, rowsWord(level.rows));
      setCell(parts[i].bytes, level.bytes);
      rise(level, parts[i]);
    });
    setCell(incoming, p.in);
    setCell(out, p.out);
    setCell(table, p.table);
    setText(tableWord, rowsWord(p.table));
    setSentence(newest, p.newest);
    setText(disk, p.disk || "");
    setAttr(bar, "width", p.percent || 0);
  }

  return { node, update };
}
