// The plots of an hour, six, a day or a week, of all sinks together. Points of an hour come every 10 s, those of a week every half hour. Where nobody has looked
// there is a gap. Starts, changed definitions and trouble are marks.
//
// The values of one moment stand below each plot: of the last one, of the one under the mouse or a finger, or of the one that the slider of the plot
// is at. The slider is for keyboards and screen readers, and is seen while it has the focus.

import { h, replace, setAttr, setText, timeNode, visible, isUTC } from "./dom.js";

const ranges = { "1h": "1 h", "6h": "6 h", "24h": "24 h", "7d": "7 d" };
const lengths = { "1h": "hour", "6h": "6 hours", "24h": "24 hours", "7d": "7 days" };
const steps = [1, 2, 5, 10, 15, 30].flatMap((n) => [n, n * 60]).concat([1, 2, 3, 6, 12, 24, 48, 168].map((n) => n * 3600)).sort((a, b) => a - b);
const blue = "#0072B2", red = "#D55E00"; // both can be seen on light and dark; dashes tell them apart too

function span(s) {
  if (s < 60) return Math.round(s * 10) / 10 + " s";
  return s < 3600 ? Math.round(s / 6) / 10 + " min" : Math.round(s / 360) / 10 + " h";
}

// tens keeps the powers of ten of a scale.
const tens = (_, at) => at.map((v) => (Math.abs(Math.log10(v) - Math.round(Math.log10(v))) < 1e-6 ? v : null));

const markColours = { trouble: red, well: "#009E73", start: "#888888", definition: "#888888" };

const short = (s) => (s < 1 ? Number((s * 1000).toPrecision(2)) + " ms" : span(s));

const plain = (v) => (v >= 99950 ? Number(v.toPrecision(3)).toLocaleString("en") : v >= 10 ? Math.round(v).toLocaleString("en") : String(Math.round(v * 10) / 10));

// columns are positions in a point. dots are for what does not happen in every point.
const kinds = [
  { title: "Rows per second", lines: [["in", 1], ["out", 2]], text: plain },
  { title: "Oldest waiting row", lines: [["local", 3], ["staging", 4]], text: span, steps },
  { title: "Commits", lines: [["median", 7], ["p99", 8]], text: short, dots: true },
  { title: "Uploads", lines: [["median", 9], ["p99", 10]], text: short, dots: true },
  { title: "Imports", lines: [["median", 11], ["p99", 12]], text: short, dots: true },
  { title: "Per minute", lines: [["calls refused", 5], ["records rejected", 6]], text: plain },
];

function clock(seconds, exact) {
  if (shownSpan > 86400) return new Date(seconds * 1000).toLocaleString("en-GB", { day: "numeric", month: "short", ...(exact ? { hour: "2-digit", minute: "2-digit" } : {}), ...(isUTC() ? { timeZone: "UTC" } : {}) });
  return new Date(seconds * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", ...(exact ? { second: "2-digit" } : {}), ...(isUTC() ? { timeZone: "UTC" } : {}) });
}

let shownSpan = 3600;

export function newPlots(app) {
  let range = "1h", every = 10, marks = [];
  let points = [], asked = 0, asking = false, uPlot = null, charts = [];
  const figures = kinds.map((kind) => {
    const box = h("div", { class: "chart", role: "img", "aria-label": kind.title });
    const line = h("p", { class: "line" });
    const moment = h("input", { type: "range", class: "moment", min: "0", max: "0", step: "1", "aria-label": "Moment of the plot: " + kind.title });
    const f = { kind, box, line, moment, at: null, node: h("figure", {}, h("figcaption", { text: kind.title }), box, moment, line) };
    moment.addEventListener("focus", () => { f.at = points.at(-1)?.[0] ?? null; place(f); });
    moment.addEventListener("input", () => { f.at = points[Number(moment.value)]?.[0] ?? null; place(f); });
    moment.addEventListener("blur", () => {
      f.at = null;
      place(f);
      f.chart?.setCursor({ left: -10, top: -10 }, true, true);
    });
    // A mouse moves the cursor of the library; a finger does not, because it scrolls the page.
    const touched = (e) => {
      if (e.pointerType !== "touch" || !f.chart) return;
      f.chart.setCursor({ left: e.clientX - f.chart.over.getBoundingClientRect().left, top: 10 }, true, true);
    };
    box.addEventListener("pointerdown", touched);
    box.addEventListener("pointermove", touched);
    return f;
  });
  const values = h("table", { class: "values", hidden: true });
  const button = h("button", { type: "button", "aria-expanded": "false", text: "Show the values", onclick: () => {
    values.hidden = !values.hidden;
    setAttr(button, "aria-expanded", String(!values.hidden));
    setText(button, values.hidden ? "Show the values" : "Hide the values");
    showValues();
  } });
  const title = h("h2", { text: "Last hour" });
  const choice = h("span", { class: "kinds", role: "group", "aria-label": "Range of the plots" }, ...Object.entries(ranges).map(([name, text]) =>
    h("button", { type: "button", "data-range": name, "aria-pressed": String(name === range), text, onclick: () => choose(name) })));
  const events = h("ul", { class: "marks", "aria-label": "Events" });

  function choose(name) {
    if (name === range) return;
    range = name;
    points = [];
    asked = 0;
    for (const b of choice.children) setAttr(b, "aria-pressed", String(b.dataset.range === name));
    setText(title, "Last " + lengths[name]);
    for (const c of charts) c?.destroy();
    charts = [];
    update();
  }

  // showMarks lists the newest events of the range.
  function showMarks() {
    const newest = marks.slice(-5).reverse();
    const key = JSON.stringify(newest) + isUTC();
    if (events.dataset.key === key) return;
    events.dataset.key = key;
    replace(events, ...newest.map((m) => h("li", { "data-kind": m.kind }, timeNode(m.at), " ", visible(m.text))));
    events.hidden = !newest.length;
  }

  // drawMarks draws a line for each event.
  function drawMarks(u) {
    const { ctx } = u, { top, height, left, width } = u.bbox;
    ctx.save();
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
    for (const m of marks) {
      const x = Math.round(u.valToPos(m.at / 1000, "x", true));
      if (x < left || x > left + width) continue;
      ctx.strokeStyle = markColours[m.kind] || "#888888";
      ctx.beginPath();
      ctx.moveTo(x, top);
      ctx.lineTo(x, top + height);
      ctx.stroke();
    }
    ctx.restore();
  }

  const node = h("div", { class: "plots" }, h("div", { class: "tablebar" }, title, choice, button),
    h("div", { class: "charts" }, ...figures.map((f) => f.node)), events, values);

  // data has a column for each line, with a gap where points are missing.
  function data(kind) {
    const columns = [[], ...kind.lines.map(() => [])];
    let before = null;
    for (const p of points) {
      const at = p[0] / 1000;
      if (before !== null && at - before > 3 * every) {
        columns[0].push(before + every);
        kind.lines.forEach((_, i) => columns[i + 1].push(null));
      }
      columns[0].push(at);
      kind.lines.forEach(([, position], i) => columns[i + 1].push(p[position]));
      before = at;
    }
    return columns;
  }

  function make(f) {
    const ink = () => getComputedStyle(f.box).color;
    const grid = () => getComputedStyle(f.box).borderTopColor;
    const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 }, font: "12px system-ui" };
    const colours = [blue, red];
    return new uPlot({
      width: Math.max(200, f.box.clientWidth), height: 150, cursor: { sync: { key: "forebay" }, y: false }, legend: { show: false },
      scales: { x: { time: false, range: () => { const now = points.length ? points.at(-1)[0] / 1000 : Date.now() / 1000; return [now - shownSpan, now]; } },
        // One spike of a quantile would flatten all others: latencies have a scale of powers of ten.
        y: f.kind.dots ? { distr: 3, log: 10, range: (_, low, high) => [10 ** Math.floor(Math.log10(low > 0 ? low : 0.001)), 10 ** Math.ceil(Math.log10(high > 0 ? high * 1.001 : 0.1))] }
          : { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
      axes: [{ ...axis, space: 70, incrs: [300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400], values: (_, at) => at.map((s) => clock(s)) },
        { ...axis, size: 64, ...(f.kind.steps ? { incrs: f.kind.steps } : {}), ...(f.kind.dots ? { filter: tens, grid: { ...axis.grid, filter: tens }, ticks: { ...axis.ticks, filter: tens } } : {}),
          values: (_, at) => at.map((v) => (v === null ? "" : f.kind.text(v))) }],
      series: [{}, ...f.kind.lines.map(([label], i) => ({ label, stroke: colours[i], width: 2, dash: i ? [6, 4] : [], points: { show: Boolean(f.kind.dots), size: 4 } }))],
      hooks: { setCursor: [(u) => say(f, u.cursor.idx)], draw: [drawMarks] },
    }, data(f.kind), f.box);
  }

  // place puts the slider of a plot at its moment, or at the newest point, and the cursor of the plot too while the slider has the focus.
  function place(f) {
    let at = points.findIndex((p) => p[0] === f.at);
    if (at < 0) at = points.length - 1;
    setAttr(f.moment, "max", Math.max(0, at, points.length - 1));
    f.moment.value = String(Math.max(0, at));
    setAttr(f.moment, "aria-valuetext", at < 0 ? "no value yet" : clock(points[at][0] / 1000, true) + ": " + valuesAt(f, points[at]).join(", "));
    if (f.at !== null) f.chart?.setCursor({ left: f.chart.valToPos(points[at][0] / 1000, "x"), top: 10 }, true, true);
  }

  const valuesAt = (f, p) => f.kind.lines.map(([label, position]) => label + " " + (p[position] === null ? "–" : f.kind.text(p[position])));

  // say writes the values under the cursor, or the last ones.
  function say(f, idx) {
    const d = data(f.kind);
    const known = f.kind.dots ? d[1].findLastIndex((v) => v !== null) : -1;
    const i = idx ?? (known < 0 ? d[0].length - 1 : known);
    const shown = f.kind.lines.map(([label], n) => (n ? "┄ " : "― ") + label + " " + (d[n + 1][i] === null || d[n + 1][i] === undefined ? "–" : f.kind.text(d[n + 1][i])));
    setText(f.line, (d[0].length ? clock(d[0][i], idx !== null && idx !== undefined) + "  " : "") + shown.join("   "));
    if (idx === null || idx === undefined) setAttr(f.box, "aria-label", f.kind.title + " of the last " + lengths[range] + ", " + (f.kind.dots ? "last: " : "now: ") + shown.map((s) => s.slice(2)).join(", "));
  }

  function showValues() {
    if (values.hidden) return;
    const lines = kinds.flatMap((k) => k.lines.map(([label, position]) => ({ label: k.dots ? k.title + " " + label : label, position, text: k.text, dots: k.dots })));
    const minutes = points.filter((_, i) => every >= 60 || (points.length - 1 - i) % 6 === 0).reverse();
    // What does not happen in every point has the greatest value of its minute.
    const value = (p, l) => {
      if (!l.dots) return p[l.position];
      const all = points.filter((q) => q[0] <= p[0] && q[0] > p[0] - Math.max(60, every) * 1000 && q[l.position] !== null).map((q) => q[l.position]);
      return all.length ? Math.max(...all) : null;
    };
    replace(values, h("caption", { class: "unseen", text: "Values of the plots, newest first" }),
      h("thead", {}, h("tr", {}, h("th", { scope: "col", text: "Time" }), ...lines.map((l) => h("th", { scope: "col", class: "n", text: l.label })))),
      h("tbody", {}, ...minutes.map((p) => h("tr", {}, h("th", { scope: "row", text: clock(p[0] / 1000) }),
        ...lines.map((l) => h("td", { class: "n", "data-label": l.label, text: value(p, l) === null ? "–" : l.text(value(p, l)) }))))));
  }

  function draw() {
    if (!node.offsetParent) return;
    figures.forEach((f, i) => {
      if (charts[i]) charts[i].setData(data(f.kind));
      else charts[i] = f.chart = make(f);
      place(f);
      say(f, charts[i].cursor.idx);
    });
    showValues();
  }

  async function update() {
    if (asking || Date.now() - asked < Math.min(every, 60) * 1000) return;
    asking = true;
    const of = range;
    try {
      uPlot ||= (await import("./uplot.js")).default;
      const got = await app.get("overview.history", { range: of, after: points.length ? points.at(-1)[0] : 0 });
      if (of !== range) return;
      every = got.every;
      shownSpan = got.span;
      marks = got.marks;
      points.push(...got.points);
      const from = points.length ? points.at(-1)[0] - got.span * 1000 : 0;
      points = points.filter((p) => p[0] >= from);
      asked = Date.now();
      draw();
      showMarks();
    } catch {
      asked = Date.now(); // the status line says that the server is away
    } finally {
      asking = false;
      if (of !== range) update(); // another range was chosen meanwhile
    }
  }

  new ResizeObserver(() => figures.forEach((f, i) => charts[i]?.setSize({ width: Math.max(200, f.box.clientWidth), height: 150 }))).observe(node);
  document.documentElement.addEventListener("themechange", () => charts.forEach((c) => c.redraw()));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach((c) => c.redraw()));

  return { node, update };
}
