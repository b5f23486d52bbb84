package console

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay/forebay/buffer"
)

// pageSize is the number of lines of a list that are shown at once. The scripts have the same number.
const pageSize = 50

// pageOf returns the page of a list after as many lines as from says, and how many these are. It is the last page if the list has become shorter.
// A text that is not a number counts as 0.
func pageOf[T any](list []T, from string) (page []T, before int) {
	n, _ := strconv.Atoi(from)
	before = max(0, min(n, (len(list)-1)/pageSize*pageSize))
	return list[before:min(len(list), before+pageSize)], before
}

func (c *Console) overviewPage() page {
	return page{name: "overview", title: "Overview", key: "o", right: Numbers, live: overviewView, endpoints: []endpoint{
		{name: "overview.history", method: http.MethodGet, right: Numbers, run: (*request).historyOf},
	}}
}

// overviewHead is the part of the page above the table.
type overviewHead struct {
	Tiles   [4]tile `json:"tiles"`
	Picture picture `json:"picture"`
	// Sinks that the filter leaves, of all. From is the position of the first row that is shown.
	Matching int `json:"matching"`
	Sinks    int `json:"sinks"`
	From     int `json:"from"`
}

// tile is a figure with two lines below it.
type tile struct {
	Name string `json:"name"`
	// Value is a cell or the age of a row.
	Value any         `json:"value"`
	Lines [2]sentence `json:"lines"`
	// State is a word of sinkState if it is bad, else empty.
	State string `json:"state,omitempty"`
	// Page is the address of the page that the first line leads to, empty if there is none.
	Page string `json:"page,omitempty"`
}

// overviewView shows pageSize sinks, and in the picture the sums of all that the filter leaves. The query has "filter", a part of "source/sink", "source/"
// for all sinks of a source, or a state; "sort", a column, descending after a "-"; and "from", the number of sinks to skip.
func overviewView(s *sample, q url.Values) view {
	filter := strings.ToLower(strings.TrimSpace(q.Get("filter")))
	chosen := chooseSinks(s, filter, q.Get("sort"))
	page, from := pageOf(chosen, q.Get("from"))
	drawn := s.all().picture
	if filter != "" {
		drawn = s.newPictureOfSome(filter, chosen)
	}
	head := overviewHead{Tiles: s.all().tiles, Picture: drawn, Matching: len(chosen), Sinks: len(s.stats.Sinks), From: from}
	var rows []row
	for _, i := range page {
		rows = append(rows, s.sink(i).row())
	}
	return view{head: head, rows: rows}
}

// chooseSinks returns positions in s.stats.Sinks.
func chooseSinks(s *sample, filter, sort string) []int {
	states := s.all().states
	contains := strings.Contains
	if strings.HasSuffix(filter, "/") {
		contains = strings.HasPrefix
	}
	chosen := make([]int, 0, len(states))
	for i := range s.stats.Sinks {
		if filter == "" || contains(s.stats.Sinks[i].ID, filter) || states[i].word() == filter {
			chosen = append(chosen, i)
		}
	}
	column, down := strings.CutPrefix(sort, "-")
	number := map[string]func(i int) float64{
		"in":       func(i int) float64 { return s.flows[i].in },
		"out":      func(i int) float64 { return s.flows[i].out },
		"local":    func(i int) float64 { return float64(s.stats.Sinks[i].Local.Rows) },
		"staging":  func(i int) float64 { return float64(s.stats.Sinks[i].Staging.Rows) },
		"oldest":   func(i int) float64 { return s.sink(i).oldest().Seconds() },
		"table":    func(i int) float64 { return float64(s.stats.Sinks[i].Target.Rows) },
		"rejected": func(i int) float64 { return float64(rejected(s.stats.Sinks[i].Rejected)) },
	}[column]
	compare := func(a, b int) int { return cmp.Compare(trouble(states[b]), trouble(states[a])) }
	switch {
	case number != nil:
		compare = func(a, b int) int { return cmp.Compare(number(a), number(b)) }
	case column == "name":
		compare = cmp.Compare[int]
	}
	// The sinks are in the order of their names already, which decides between equals.
	slices.SortStableFunc(chosen, func(a, b int) int {
		if down {
			return compare(b, a)
		}
		return compare(a, b)
	})
	return chosen
}

// trouble orders the states of sinks. A sink that changes between flowing and idle stays where it is.
func trouble(s sinkState) int {
	if s.trouble() {
		return int(s)
	}
	return 0
}

func rejected(byReason map[string]int64) (n int64) {
	for _, k := range byReason {
		n += k
	}
	return n
}

// row has the cells of the table, in its order.
func (k sinkNow) row() row {
	s, f := &k.stats.Sinks[k.i], k.flows[k.i]
	in, out := cell{Text: unknown}, cell{Text: unknown}
	if f.known {
		in, out = rate(f.in), rate(f.out)
	}
	return row{s.ID, []any{
		k.state().word(), in, count(s.Local.Rows), k.ageOf(s.Local), count(s.Staging.Rows), k.ageOf(s.Staging), out,
		count(s.Target.Rows), count(rejected(s.Rejected)), k.why(),
	}}
}

// ageOf is the age of the oldest row of a level, empty if it has none.
func (s *sample) ageOf(l buffer.Level) any {
	if l.Rows == 0 || l.FirstAt.IsZero() {
		return ""
	}
	return s.agedOf(l)
}

func (s *sample) agedOf(l buffer.Level) aged { return aged{l.FirstAt, s.at} }

func (s *sample) newTiles() [4]tile {
	var waiting, quarantined, expired, damaged, discarded, refused int64
	var oldest time.Duration
	var first aged
	at, state := "", stateFlows
	for i := range s.stats.Sinks {
		k := &s.stats.Sinks[i]
		waiting += k.Local.Rows + k.Staging.Rows
		quarantined += k.Quarantine.Records
		expired += k.Expired.Rows
		damaged += k.Damaged.Rows
		discarded += k.Discarded.Rows
		refused += rejected(k.Rejected)
		if age := s.sink(i).oldest(); age > oldest {
			oldest, at, state = age, k.ID, s.derived.states[i]
			first = s.sink(i).first()
		}
	}
	in := cell{Text: unknown}
	if s.total.known {
		in = rate(s.total.in)
		in.Text += " rows/s"
	}
	last := said("no row yet")
	if !s.total.lastRow.IsZero() {
		last = said("last row ", aged{s.total.lastRow, s.at}, " ago")
	}
	share := ""
	if bound := s.stats.MaxDiskBytes; bound > 0 && s.used()*100 >= bound {
		share = strconv.FormatFloat(float64(s.used())*100/float64(bound), 'f', 1, 64) + " % of the disk limit of " + size(bound).Text
	} else if bound > 0 {
		share = "of the disk limit of " + size(bound).Text
	}
	rows := count(waiting)
	rows.Text += verb(waiting, " row", " rows")
	age := any(cell{Text: unknown})
	if oldest > 0 {
		age = first
	}
	out := [4]tile{
		{Name: "In", Value: in, Lines: [2]sentence{last}},
		{Name: "Waiting", Value: rows, Lines: [2]sentence{said(size(s.used()).Text), said(share)}},
		{Name: "Oldest", Value: age, Lines: [2]sentence{said(at)}},
		{
			Name: "Rejected or given up", Value: count(refused + expired + discarded + damaged),
			Lines: [2]sentence{
				said("rejected " + count(refused).Text + ", in quarantine " + count(quarantined).Text),
				said("expired " + count(expired).Text + ", discarded " + count(discarded).Text + ", damaged " + count(damaged).Text),
			},
		},
	}
	if state.trouble() {
		out[2].State = state.word()
	}
	if at != "" {
		out[2].Page = "sink/" + at
	}
	if quarantined > 0 {
		out[3].Page = "quarantine"
	}
	if expired+damaged > 0 {
		out[3].State = stateBlocked.word()
	}
	return out
}
