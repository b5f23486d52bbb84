package console

import (
	"fmt"
	"html/template"
	"net/http"
	"sync"
	"time"
)

// The document has the first numbers in it, so that the page shows them before any script runs, and without one. Its scripts change the
// same nodes afterwards, so the markup here and there must have the same shape, see web/overview.js.

// templates are parsed at the first request.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"isMoment": func(v any) bool { _, ok := v.(moment); return ok },
		"isText":   func(v any) bool { _, ok := v.(cell); return !ok },
		"iso":      func(m moment) string { return time.Time(m).UTC().Format(time.RFC3339) },
		"clock":    func(m moment) string { return time.Time(m).UTC().Format("15:04") + " UTC" },
		"grouped":  func(n int) string { return grouped(int64(n)) },
		"add":      func(a, b int) int { return a + b },
	}).ParseFS(web, "web/*.html"))
})

// documentData is the data of the document.
type documentData struct {
	Nonce    string
	Hello    hello
	Top      top
	Overview overviewHead
	Rows     []documentRow
	// Problem of signing in.
	Problem string
}

type documentRow struct {
	Key, State                                                             string
	In, LocalRows, LocalAge, StagingRows, StagingAge, Out, Table, Rejected any
	Why                                                                    sentence
}

// Last is the position of the last row that is shown.
func (d documentData) Last() int { return d.Overview.From + len(d.Rows) }

// Since is when the console was made.
func (d documentData) Since() string { return time.UnixMilli(d.Hello.Since).UTC().Format(time.RFC3339) }

// SinceText is Since as it is shown without script.
func (d documentData) SinceText() string {
	return time.UnixMilli(d.Hello.Since).UTC().Format("15:04") + " UTC"
}

func (c *Console) serveDocument(w http.ResponseWriter, r *http.Request) {
	who := c.caller(r)
	if who.rights == 0 {
		c.serveSignIn(w, r, http.StatusOK, "")
		return
	}
	s := c.sampler.current()
	if s == nil {
		fail(w, http.StatusServiceUnavailable, "The console is closed.")
		return
	}
	s = s.forRights(who.rights)
	shown := overviewView(s, r.URL.Query())
	d := documentData{Nonce: c.nonce(w, r), Hello: c.hello(who, time.Now()), Top: topOf(s), Overview: shown.head.(overviewHead)}
	for _, row := range shown.rows {
		k := row.cells
		d.Rows = append(d.Rows, documentRow{row.key, k[0].(string), k[1], k[2], k[3], k[4], k[5], k[6], k[7], k[8], k[9].(sentence)})
	}
	c.render(w, http.StatusOK, "document.html", d)
}

func (c *Console) serveSignIn(w http.ResponseWriter, r *http.Request, status int, problem string) {
	c.render(w, status, "signin.html", documentData{Nonce: c.nonce(w, r), Hello: hello{Name: c.opts.Name}, Problem: problem})
}

func (c *Console) render(w http.ResponseWriter, status int, name string, d documentData) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if err := templates().ExecuteTemplate(w, name, d); err != nil {
		c.opts.Logger.Debug("console page not written", "cause", err)
	}
}

// String is the text of a cell in the document.
func (c cell) String() string { return c.Text }

var _ fmt.Stringer = cell{}
