package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	cdpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/console"
	"github.com/forebay/forebay/mapping"
)

// startWithin is the time that the browser gets to start, and stepWithin the time of each step of a test. A test as a whole has no limit, because
// one that goes through all pages takes minutes on a loaded machine.
const (
	startWithin = 90 * time.Second
	stepWithin  = 90 * time.Second
)

// program is the browser of this process, which all tests share. Each test has a separate context in it.
type program struct {
	mu     sync.Mutex
	ctx    context.Context
	cancel []context.CancelFunc
	err    error
}

var shared program

func TestMain(m *testing.M) {
	status := m.Run()
	for _, cancel := range slices.Backward(shared.cancel) {
		cancel()
	}
	os.Exit(status)
}

func (p *program) start(t *testing.T) context.Context {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx == nil && p.err == nil {
		p.err = p.run()
	}
	if p.err != nil && os.Getenv("CI") != "true" {
		t.Skipf("no browser: %v; install chromium", p.err)
	} else if p.err != nil {
		t.Fatalf("no browser: %v", p.err)
	}
	return p.ctx
}

func (p *program) run() error {
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		return fmt.Errorf("neither chromium nor google-chrome is there")
	}
	opts := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.DisableGPU,
		chromedp.WindowSize(1280, 800), chromedp.Flag("lang", "en-US"),
		chromedp.Flag("js-flags", "--expose-gc"), chromedp.Flag("enable-precise-memory-info", true), chromedp.Env("TZ=Europe/Prague"),
		// Its handler of crashes outlives the browser, and would keep the output of the test open.
		chromedp.CombinedOutput(io.Discard))
	if os.Geteuid() == 0 {
		opts = append(opts, chromedp.NoSandbox)
	}
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), opts...)
	p.cancel = append(p.cancel, cancel)
	ctx, cancel := chromedp.NewContext(allocator)
	p.cancel = append(p.cancel, cancel)
	started := make(chan error, 1)
	go func() { started <- chromedp.Do(ctx) }()
	select {
	case err := <-started:
		if err != nil {
			return err
		}
	case <-time.After(startWithin):
		return fmt.Errorf("%s has not started in %v", path, startWithin)
	}
	p.ctx = ctx
	return nil
}

// tab is one page in a separate context, without cookies.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu sync.Mutex
	// complaints are messages of the console above info, refused requests and dialogs. asked are the URLs of requests.
	complaints, asked []string
}

// newTab checks at the end of the test that the page has not complained, and sent requests to one origin only. Tests of failures list their complaints.
func newTab(t *testing.T, expected ...string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(shared.start(t), chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx}
	// The first action opens the tab, which closes when the context of the action ends.
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1280, 800)); err != nil {
		t.Fatal(err)
	}
	note := func(list *[]string, text string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		*list = append(*list, text)
	}
	messages := chromedp.Console(ctx)
	go func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			if m.Type == chromedp.ConsoleError || m.Type == chromedp.ConsoleWarning || m.Type == chromedp.ConsoleException {
				note(&b.complaints, fmt.Sprintf("%s: %s (%s:%d)", m.Type, m.Text, m.URL, m.Line))
			}
		}
	}()
	if err := chromedp.Listen(ctx, func(ev any) {
		switch ev := ev.(type) {
		case *network.EventRequestWillBeSent:
			note(&b.asked, ev.Request.URL)
		case *cdpage.EventJavascriptDialogOpening:
			note(&b.complaints, "dialog: "+ev.Message)
		}
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, c := range b.complaints {
			if !slices.ContainsFunc(expected, func(e string) bool { return strings.Contains(c, e) }) {
				t.Errorf("the page complains: %s", c)
			}
		}
		origin := ""
		for _, u := range b.asked {
			if !strings.HasPrefix(u, "http") {
				continue
			}
			o := strings.Join(strings.SplitN(u, "/", 4)[:3], "/")
			if origin == "" {
				origin = o
			}
			if o != origin {
				t.Errorf("the page of %s asks %s", origin, u)
			}
		}
	})
	return b
}

// step begins a step of the test, which ends in time.
func (b *tab) step() (context.Context, context.CancelFunc) {
	return context.WithTimeout(b.ctx, stepWithin)
}

func (b *tab) open(url string) {
	b.t.Helper()
	ctx, cancel := b.step()
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		b.t.Fatal(err)
	}
}

// live opens a console and waits for the first message.
func (b *tab) live(url string) {
	b.t.Helper()
	b.open(url)
	b.until(`document.documentElement.dataset.seq > 0`)
}

// taskTime is the time of the processor that the page has taken since it was opened, in seconds.
func (b *tab) taskTime() float64 {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks}); err != nil {
		b.t.Fatal(err)
	}
	metrics, err := chromedp.Call(b.ctx, performance.GetMetrics, cdp.Empty{})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, m := range metrics.Metrics {
		if m.Name == "TaskDuration" {
			return m.Value
		}
	}
	b.t.Fatal("the browser does not tell the time of tasks")
	return 0
}

// eval runs an expression in the page and decodes its result, which must be JSON.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := b.step()
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: got %v, want no error", expression, err)
	}
	return v
}

// until waits for a condition in the page.
func (b *tab) until(condition string) {
	b.t.Helper()
	ctx, cancel := b.step()
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("Boolean("+condition+")"))
		if err == nil && ok {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			report, cancel := b.step()
			defer cancel()
			page, shown := chromedp.Run(report, chromedp.Evaluate[string]("document.body.innerText"))
			b.mu.Lock()
			defer b.mu.Unlock()
			b.t.Fatalf("%s does not become true (%v); complaints %q; the page (%v):\n%s", condition, err, b.complaints, shown, page)
		}
	}
}

// waitFor waits for a condition outside of the page.
func (b *tab) waitFor(what string, ok func() bool) {
	b.t.Helper()
	ctx, cancel := b.step()
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			b.t.Fatalf("%s: not in time", what)
		}
	}
}

// text waits until the page has a text.
func (b *tab) text(want string) {
	b.t.Helper()
	quoted, _ := json.Marshal(want)
	b.until(`document.body.innerText.includes(` + string(quoted) + `)`)
}

func (b *tab) click(selector string) {
	b.t.Helper()
	ctx, cancel := b.step()
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Click(chromedp.CSS(selector))); err != nil {
		b.t.Fatalf("click on %s: %v", selector, err)
	}
}

// openMenu opens the menu of the console, if it is not open.
func (b *tab) openMenu() {
	b.t.Helper()
	if !eval[bool](b, `document.getElementById("menu").open`) {
		b.click("#menu summary")
	}
	b.until(`document.getElementById("menu").open`)
}

// press sends keys to whatever has the focus.
func (b *tab) press(keys string) {
	b.t.Helper()
	ctx, cancel := b.step()
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.KeyEvent(keys)); err != nil {
		b.t.Fatal(err)
	}
}

func newEngine(t *testing.T, sources int, sinks int) *forebay.Engine {
	t.Helper()
	eng, err := forebay.Open(t.TempDir(), forebay.Options{MaxSources: max(sources, 100)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	for i := range sources {
		def := forebay.Source{ID: fmt.Sprintf("web%d", i)}
		for j := range sinks {
			id := fmt.Sprintf("sink%02d", j)
			def.Sinks = append(def.Sinks, forebay.Sink{ID: id, Table: forebay.Table{ID: def.ID + "." + id, Columns: mapping.Columns{mapping.UUID("id"), mapping.Path("kind", "kind")}}})
		}
		if err := eng.Define(t.Context(), def); err != nil {
			t.Fatal(err)
		}
	}
	return eng
}

func ingest(t *testing.T, eng *forebay.Engine, source string, n int) {
	t.Helper()
	for range n {
		if _, err := eng.Ingest(t.Context(), source, mapping.JSON([]byte(`{"kind":"click"}`))); err != nil {
			t.Fatal(err)
		}
	}
}

func newConsole(t *testing.T, eng *forebay.Engine, opts console.Options) *console.Console {
	t.Helper()
	c, err := console.New(eng, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// serve must be called before newTab, so that the tab is closed first. Its stream would hold up the server.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL + "/"
}

func itoa(n int) string { return strconv.Itoa(n) }

// quoted is a text as an expression.
func quoted(text string) string {
	b, _ := json.Marshal(text) // a string is always JSON
	return string(b)
}
