package browsertest

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// plotted draws the plots of given points apart from the engine of the page, and returns what is on each: the texts of its axes, with the pixels that lie
// beyond the edge of the plot, and the rows of pixels of its first line. points are as the server sends them. A row of a pixel is counted from the top of
// the area of the lines, as a share of its height.
const plotted = `(async () => {
	const { newPlots } = await import(document.querySelector("script[type=module]").src.replace("app.js", "plots.js"));
	const texts = new Map(), write = CanvasRenderingContext2D.prototype.fillText;
	CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...more) {
		const at = this.getTransform(), width = this.measureText(text).width, left = at.e + at.a * x - (this.textAlign === "right" || this.textAlign === "end" ? width : this.textAlign === "center" ? width / 2 : 0);
		if (text) (texts.get(this.canvas) || texts.set(this.canvas, []).get(this.canvas)).push([text, Math.max(0, -left)]);
		return write.call(this, text, x, y, ...more);
	};
	const answer = %s;
	const plots = newPlots({ get: async () => answer });
	document.querySelector("#page").prepend(plots.node);
	await plots.update();
	for (let i = 0; i < 3; i++) await new Promise(requestAnimationFrame); // the library draws after the frame
	CanvasRenderingContext2D.prototype.fillText = write;
	const found = [...plots.node.querySelectorAll("figure")].map((figure) => {
		const canvas = figure.querySelector("canvas"), over = figure.querySelector(".u-over"), scale = canvas.width / canvas.getBoundingClientRect().width;
		const top = (over.getBoundingClientRect().top - canvas.getBoundingClientRect().top) * scale, height = over.clientHeight * scale;
		const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height), rows = [];
		for (let y = 0; y < canvas.height; y++) for (let x = 0; x < canvas.width; x++) {
			const i = 4 * (y * canvas.width + x);
			if (data[i] < 40 && Math.abs(data[i + 1] - 0x72) < 30 && data[i + 2] > 0x90 && data[i + 3] > 200) { rows.push((y - top) / height); break; }
		}
		return { title: figure.querySelector("figcaption").textContent, texts: texts.get(canvas) || [], rows };
	});
	plots.node.remove();
	window.found = found;
})().catch((e) => { window.found = String(e); }), window.found = null, true`

type plot struct {
	Title string
	Texts [][2]any
	Rows  []float64
}

// plots draws points for a range of the plots.
func (b *tab) plots(points string, span int) map[string]plot {
	b.t.Helper()
	eval[bool](b, fmt.Sprintf(plotted, fmt.Sprintf(`{ every: %d, span: %d, marks: [], points: %s }`, span/360, span, points)))
	b.until(`window.found !== null`)
	if problem := eval[string](b, `typeof window.found === "string" ? window.found : ""`); problem != "" {
		b.t.Fatal(problem)
	}
	byTitle := make(map[string]plot)
	for _, p := range eval[[]plot](b, `window.found`) {
		byTitle[p.Title] = p
	}
	return byTitle
}

// point is a point of the server: its time, rows in and out, ages, refused and rejected, and the medians and 99th percentiles of three latencies.
const point = `[at, 100, 100, age, age / 3, 0, 0, median, high, median, high, median, high]`

// The ticks of ages are round numbers of seconds, minutes, hours or days that fit next to the axis, whatever the oldest row is.
func TestRoundTicks(t *testing.T) {
	eng := newEngine(t, 1, 1)
	url := serve(t, newConsole(t, eng, public))
	b := newTab(t)
	b.live(url)
	round := regexp.MustCompile(`^(\d+) (s|min|h|d)$`)
	for _, oldest := range []int{4, 9, 50, 125, 1000, 1003, 3600, 5000, 30_000, 100_000, 400_000} {
		p := b.plots(fmt.Sprintf(`Array.from({ length: 360 }, (_, i) => { const at = Date.now() - (360 - i) * 1e4, age = %d * (i + 1) / 360, median = 1, high = 2; return %s; })`, oldest, point), 3600)["Oldest waiting row"]
		ticks := 0
		for _, text := range p.Texts {
			label, beyond := text[0].(string), text[1].(float64)
			if beyond > 0 {
				t.Errorf("oldest %d s: the tick %q is cut off by %.0f pixels", oldest, label, beyond)
			}
			if strings.Contains(label, ":") { // of the time
				continue
			}
			ticks++
			m := round.FindStringSubmatch(label)
			if m == nil {
				t.Errorf("oldest %d s: the tick %q is not round", oldest, label)
				continue
			}
			n, _ := strconv.Atoi(m[1])
			if most := map[string]int{"s": 60, "min": 60, "h": 168, "d": 60}[m[2]]; n >= most {
				t.Errorf("oldest %d s: the tick %q has a larger unit", oldest, label)
			}
		}
		if ticks < 2 {
			t.Errorf("oldest %d s: %d ticks: %v", oldest, ticks, p.Texts)
		}
	}
}

// A spike of the 99th percentile, a thousand times the median, leaves the line of the median off the ground, and changes of the median can be seen.
func TestMediansAreNotHiddenBySpikes(t *testing.T) {
	eng := newEngine(t, 1, 1)
	url := serve(t, newConsole(t, eng, public))
	b := newTab(t)
	b.live(url)
	// The median grows from 2 ms to 20 ms in the middle of the hour.
	all := b.plots(`Array.from({ length: 360 }, (_, i) => { const at = Date.now() - (360 - i) * 1e4, age = 1, median = i < 180 ? 0.002 : 0.02, high = i === 90 ? 20 : 0.03; return `+point+`; })`, 3600)
	for _, name := range []string{"Commits", "Uploads", "Imports"} {
		rows := all[name].Rows
		if len(rows) == 0 {
			t.Errorf("%s: no median is drawn", name)
			continue
		}
		top, bottom := slices.Min(rows), slices.Max(rows)
		if bottom > 0.97 {
			t.Errorf("%s: the median lies on the ground, at %.2f of the height, want at most 0.97", name, bottom)
		}
		if bottom-top < 0.1 {
			t.Errorf("%s: ten times the median is %.2f of the height, want at least 0.1", name, bottom-top)
		}
	}
}
