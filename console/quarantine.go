package console

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
)

// The quarantine shows groups of rejected records, then the records of one group or filter, then one record. Messages may quote values, so all of
// it needs Records. The counts are read from the store on request, and never once a second.

const (
	// A listing reads scanRecords heads, and the content of some if it looks for a part of that. It takes scanWithin at most, plus the time of
	// the last record. It then says how far it got. scanSlots run at once.
	scanRecords = 200_000
	scanWithin  = 3 * time.Second
	scanSlots   = 2
	// maxGroups are distinguished. Records of further groups are only counted. maxChoices bounds the values that a filter offers.
	maxGroups  = 10_000
	maxChoices = 100
	// listSize records are listed at once, maxListSize if the caller asks.
	listSize, maxListSize = 50, 200
	// maxQuarantines is how many sinks the page offers, the sinks with most records first.
	maxQuarantines = 200
)

// quarantine is the page with the bounds of its reading.
type quarantine struct {
	slots chan struct{}
}

func (c *Console) quarantinePage() page {
	q := &quarantine{slots: make(chan struct{}, scanSlots)}
	const see, act = Records, Records | Changes
	return page{
		name: "quarantine", title: "Quarantine", key: "q", right: see, live: quarantineView,
		endpoints: []endpoint{
			{name: "quarantine.groups", method: http.MethodGet, right: see, run: q.groups},
			{name: "quarantine.list", method: http.MethodGet, right: see, run: q.list},
			{name: "quarantine.record", method: http.MethodGet, right: see, run: q.record},
			{name: "quarantine.test", method: http.MethodPost, right: see, run: q.test},
			{name: "quarantine.edit", method: http.MethodPost, right: act, change: true, run: q.edit},
			{name: "quarantine.replay", method: http.MethodPost, right: act, change: true, run: q.replay},
			{name: "quarantine.discard", method: http.MethodPost, right: act, change: true, run: q.discard},
			{name: "quarantine.replayall", method: http.MethodPost, right: act, change: true, run: func(c *request) (any, error) { return q.bulk(c, replayBulk) }},
			{name: "quarantine.discardall", method: http.MethodPost, right: act, change: true, run: func(c *request) (any, error) { return q.bulk(c, discardBulk) }},
		},
	}
}

// quarantineHead is the summary of all quarantines.
type quarantineHead struct {
	Records cell `json:"records"`
	Bytes   cell `json:"bytes"`
	// Sinks have records. The sinks without a row have the fewest.
	Sinks int `json:"sinks"`
	// Changes grows with each record that is added or removed.
	Changes int64 `json:"changes"`
}

// quarantineView has a row for each sink with records, the sinks with most first: records, bytes, its bound, when the oldest was rejected and when
// it expires.
func quarantineView(s *sample, _ url.Values) view {
	var with []int
	var records, bytes int64
	for i := range s.stats.Sinks {
		if k := &s.stats.Sinks[i].Quarantine; k.Records > 0 {
			with = append(with, i)
			records += k.Records
			bytes += k.Bytes
		}
	}
	slices.SortStableFunc(with, func(a, b int) int {
		return cmp.Compare(s.stats.Sinks[b].Quarantine.Records, s.stats.Sinks[a].Quarantine.Records)
	})
	v := view{head: quarantineHead{Records: count(records), Bytes: size(bytes), Sinks: len(with), Changes: quarantineChanges(&s.stats)}}
	for _, i := range with[:min(len(with), maxQuarantines)] {
		k := &s.stats.Sinks[i].Quarantine
		bound, expires := cell{Text: unknown}, any(nil)
		if k.Bounds.MaxBytes > 0 {
			bound = size(k.Bounds.MaxBytes)
		}
		if k.Bounds.MaxAge > 0 && !k.OldestAt.IsZero() {
			expires = moment(k.OldestAt.Add(k.Bounds.MaxAge))
		}
		v.rows = append(v.rows, row{s.stats.Sinks[i].ID, []any{count(k.Records), size(k.Bytes), bound, moment(k.OldestAt), expires}})
	}
	return v
}

func quarantineChanges(stats *forebay.Stats) (n int64) {
	for i := range stats.Sinks {
		k := &stats.Sinks[i].Quarantine
		n += k.Added + k.Replayed + k.Discarded + k.Expired + k.Lost
	}
	return n
}

// rejectFilter selects records, in the words of the Stream API. Empty fields select all, but with Group the last four are compared as they are.
type rejectFilter struct {
	// Sink is "source/sink".
	Sink string `json:"sink"`
	// Since and Until bound the time of the rejection: RFC 3339, or in a query also a time ago such as "24h".
	Since string `json:"since"`
	Until string `json:"until"`
	// Text is a part of the message, Content a part of the record. See [forebay.SinkQuarantine.Contains].
	Text    string `json:"text"`
	Content string `json:"content"`

	Group   bool   `json:"group"`
	Reason  string `json:"reason"`
	Column  string `json:"column"`
	Mapping string `json:"mapping"`
	// Version is the number of the definition, or empty for one without.
	Version string `json:"version"`
	// Target is "1" for rows that the target has refused, "0" for records that were not mapped.
	Target string `json:"target"`
}

func filterOf(q url.Values) rejectFilter {
	return rejectFilter{
		Sink: q.Get("sink"), Since: q.Get("since"), Until: q.Get("until"), Text: q.Get("text"), Content: q.Get("content"), Group: q.Get("group") != "",
		Reason: q.Get("reason"), Column: q.Get("column"), Mapping: q.Get("mapping"), Version: q.Get("version"), Target: q.Get("target"),
	}
}

// clean makes a text as JSON carries it, so that a filter that came back is equal to its source.
func clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// target distinguishes rows that the target has refused from records that were not mapped. A row whose replay has failed has the reason of the mapping.
func target(r *forebay.RejectedRecord) string {
	if r.Poison != nil && r.Failed == 0 {
		return "1"
	}
	return "0"
}

// version is empty for a definition without a number.
func version(r *forebay.RejectedRecord) string {
	if r.Version == 0 {
		return ""
	}
	return strconv.Itoa(r.Version)
}

// selects compares the fields that the engine's filter does not.
func (f *rejectFilter) selects(r *forebay.RejectedRecord) bool {
	for _, pair := range [][2]string{{f.Reason, r.Reason}, {f.Column, r.Column}, {f.Mapping, r.Mapping}, {f.Version, version(r)}, {f.Target, target(r)}} {
		if (f.Group || pair[0] != "") && pair[0] != clean(pair[1]) {
			return false
		}
	}
	return true
}

// engine returns the part of the filter that the engine compares. Times ago are relative to now.
func (f *rejectFilter) engine(now time.Time) (e forebay.RejectedFilter, err error) {
	e.Text = f.Text
	for _, bound := range []struct {
		name, text string
		at         *time.Time
	}{{"since", f.Since, &e.Since}, {"until", f.Until, &e.Until}} {
		if bound.text == "" {
			continue
		}
		if ago, err := time.ParseDuration(bound.text); err == nil && ago >= 0 {
			*bound.at = now.Add(-ago)
		} else if *bound.at, err = time.Parse(time.RFC3339Nano, bound.text); err != nil {
			return e, refuse(http.StatusBadRequest, "%s is %q, neither a time such as 2026-11-23T12:00:00Z nor a time ago such as 24h.", bound.name, visible(bound.text))
		}
	}
	return e, nil
}

// rejectPlace is where a listing has stopped, after a record of a sink.
type rejectPlace struct{ sink, id string }

func (p rejectPlace) String() string {
	if p.sink == "" {
		return ""
	}
	return p.sink + ":" + p.id
}

func parsePlace(text string) rejectPlace {
	sink, id, _ := strings.Cut(text, ":")
	return rejectPlace{sink, id}
}

// ofSink returns the quarantine of "source/sink". A sink that there is none of has an empty one.
func (c *Console) ofSink(id string) forebay.SinkQuarantine {
	source, sink, _ := strings.Cut(id, "/")
	return c.eng.Sink(source, sink).Quarantine()
}

// scanStep says how a scan continues after a record.
type scanStep uint8

const (
	scanOn scanStep = iota
	scanNextSink
	scanStop
)

// scan visits the heads of the records that the times and the texts of a filter select, sink by sink, in the order of their rejections, from
// after on. end is where it reached a bound of the scan, or empty if it was not cut off.
func (q *quarantine) scan(c *request, stats *forebay.Stats, f *rejectFilter, now time.Time, after rejectPlace, visit func(r *forebay.RejectedRecord) scanStep) (end rejectPlace, err error) {
	filter, err := f.engine(now)
	if err != nil {
		return end, err
	}
	select {
	case q.slots <- struct{}{}:
		defer func() { <-q.slots }()
	case <-c.ctx.Done():
		return end, c.ctx.Err()
	}
	// Texts are compared here, so that records that do not match count toward the bound too.
	text := strings.ToLower(filter.Text)
	filter.Text = ""
	began, seen := time.Now(), 0
	for i := range stats.Sinks {
		k := &stats.Sinks[i]
		if k.Quarantine.Records == 0 || f.Sink != "" && f.Sink != k.ID || cmp.Compare(k.ID, after.sink) < 0 {
			continue
		}
		filter.After = ""
		if k.ID == after.sink {
			filter.After = after.id
		}
		for r, err := range c.eng.Sink(k.Source, k.Sink).Quarantine().List(c.ctx, filter) {
			if errors.Is(err, forebay.ErrUnknownSink) { // it was forgotten meanwhile
				continue
			}
			if err != nil {
				return end, err
			}
			has := text == "" || strings.Contains(strings.ToLower(r.Message), text)
			read := has && f.Content != ""
			if read {
				if has, err = c.eng.Sink(k.Source, k.Sink).Quarantine().Contains(c.ctx, r.ID, f.Content); err != nil {
					return end, err
				}
			}
			step := scanOn
			if has {
				step = visit(&r)
			}
			if step == scanStop {
				return rejectPlace{}, nil
			}
			if step == scanNextSink {
				break
			}
			if seen++; seen >= scanRecords || (read || seen%256 == 0) && time.Since(began) >= scanWithin {
				return rejectPlace{k.ID, r.ID}, nil
			}
		}
	}
	return rejectPlace{}, nil
}

// sorted returns the statistics with the sinks in the order of their names, which is the order of places.
func (c *Console) sorted() *forebay.Stats {
	stats := c.eng.Stats()
	slices.SortFunc(stats.Sinks, func(a, b forebay.SinkStats) int { return cmp.Compare(a.ID, b.ID) })
	return &stats
}

// rejectGroup counts the records with one cause. Its sink, reason, column, mapping, version and target, with Group, are its filter.
type rejectGroup struct {
	Sink    string `json:"sink"`
	Reason  string `json:"reason"`
	Column  string `json:"column"`
	Mapping string `json:"mapping"`
	Version string `json:"version"`
	Target  string `json:"target"`
	// Current is set if the definition of now has the same columns, so only an edit can make these records pass.
	Current bool `json:"current"`
	Count   int  `json:"count"`
	// First and Last are the times of rejections. Example is the message of the newest record.
	First   moment `json:"first"`
	Last    moment `json:"last"`
	Example string `json:"example"`
}

// rejectGroups are the records that a filter selects.
type rejectGroups struct {
	// Groups are a page of Matching groups, the groups with most records first, which begins after From.
	Groups   []*rejectGroup `json:"groups"`
	Matching int            `json:"matching"`
	From     int            `json:"from"`
	// Records counts all of them, Others the records of unlisted groups. Complete is not set if there may be more.
	Records  int  `json:"records"`
	Others   int  `json:"others"`
	Complete bool `json:"complete"`
	// Since and Until bound the counted records, the filter of a change that is made of it.
	Since string `json:"since"`
	Until string `json:"until"`
	// Reasons and Columns are the choices that the rest of the filter leaves. MoreChoices is set if one of the lists is not complete.
	Reasons     []string `json:"reasons"`
	MoreChoices bool     `json:"moreChoices"`
	Columns     []string `json:"columns"`
	// Versions are numbers, the newest first.
	Versions []string `json:"versions"`
	// Changes is as in the head.
	Changes int64 `json:"changes"`
	// Most is how many records one task takes.
	Most int `json:"most"`
}

func (q *quarantine) groups(c *request) (any, error) {
	f, now, stats := filterOf(c.query), time.Now(), c.sorted()
	bounds, err := f.engine(now)
	if err != nil {
		return nil, err
	}
	out := rejectGroups{Groups: []*rejectGroup{}, Changes: quarantineChanges(stats), Most: maxBulk}
	if bounds.Until.IsZero() || bounds.Until.After(now) {
		bounds.Until = now.Add(time.Millisecond) // times of rejections have milliseconds
	}
	f.Until, out.Until = rfc3339(bounds.Until), rfc3339(bounds.Until)
	if !bounds.Since.IsZero() {
		f.Since, out.Since = rfc3339(bounds.Since), rfc3339(bounds.Since)
	}
	groups := make(map[rejectGroup]*rejectGroup)
	reasons, columns, versions := make(map[string]bool), make(map[string]bool), make(map[string]bool)
	note := func(set map[string]bool, v string) {
		switch {
		case v == "" || set[v]:
		case len(set) < maxChoices:
			set[v] = true
		default:
			out.MoreChoices = true
		}
	}
	end, err := q.scan(c, stats, &f, now, rejectPlace{}, func(r *forebay.RejectedRecord) scanStep {
		note(reasons, clean(r.Reason))
		note(columns, clean(r.Column))
		note(versions, version(r))
		if !f.selects(r) {
			return scanOn
		}
		out.Records++
		key := rejectGroup{Sink: r.Source + "/" + r.Sink, Reason: clean(r.Reason), Column: clean(r.Column), Mapping: r.Mapping, Version: version(r), Target: target(r)}
		g := groups[key]
		if g == nil {
			if len(groups) >= maxGroups {
				out.Others++
				return scanOn
			}
			g = &rejectGroup{}
			*g = key
			g.First = moment(r.At)
			groups[key] = g
			out.Groups = append(out.Groups, g)
		}
		g.Count++
		g.Last, g.Example = moment(r.At), r.Message
		return scanOn
	})
	if err != nil {
		return nil, err
	}
	out.Complete = end.sink == ""
	slices.SortStableFunc(out.Groups, func(a, b *rejectGroup) int { return cmp.Compare(b.Count, a.Count) })
	out.Matching = len(out.Groups)
	out.Groups, out.From = pageOf(out.Groups, c.query.Get("from"))
	current := make(map[string]string)
	for _, g := range out.Groups {
		g.Example = visible(g.Example)
		name, known := current[g.Sink]
		if !known {
			name, _ = c.ofSink(g.Sink).Mapping(c.ctx) // "" for a sink that accepts no events
			current[g.Sink] = name
		}
		g.Current = g.Mapping != "" && g.Mapping == name
	}
	out.Reasons, out.Columns, out.Versions = keys(reasons), keys(columns), keys(versions)
	slices.SortFunc(out.Versions, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(b, a)) })
	return out, nil
}

func keys(set map[string]bool) []string {
	list := make([]string, 0, len(set))
	for v := range set {
		list = append(list, v)
	}
	slices.Sort(list)
	return list
}

func rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// rejectLine is a record in a list.
type rejectLine struct {
	Sink    string  `json:"sink"`
	ID      string  `json:"id"`
	At      moment  `json:"at"`
	Reason  string  `json:"reason"`
	Column  string  `json:"column"`
	Message string  `json:"message"`
	Mapping string  `json:"mapping"`
	Version string  `json:"version"`
	Target  string  `json:"target"`
	Size    cell    `json:"size"`
	Failed  int     `json:"failed"`
	TriedAt *moment `json:"triedAt"`
	Edited  bool    `json:"edited"`
	// EditedBy and EditedAt are of the last edit, empty if they were not noted.
	EditedBy string  `json:"editedBy"`
	EditedAt *moment `json:"editedAt"`
	Revision int     `json:"revision"`
}

func lineOf(r *forebay.RejectedRecord) rejectLine {
	l := rejectLine{
		Sink: r.Source + "/" + r.Sink, ID: r.ID, At: moment(r.At), Reason: visible(r.Reason), Column: visible(r.Column), Message: visible(r.Message),
		Mapping: r.Mapping, Version: version(r), Target: target(r), Size: size(r.Size), Failed: r.Failed, Edited: r.Edited, Revision: r.Revision,
		EditedBy: visible(r.EditedBy),
	}
	if !r.EditedAt.IsZero() {
		at := moment(r.EditedAt)
		l.EditedAt = &at
	}
	if !r.TriedAt.IsZero() {
		at := moment(r.TriedAt)
		l.TriedAt = &at
	}
	return l
}

// list returns records in the order of sinks and rejections. The next page is "after" the place in "next". A page may be short of records
// and have a next one, when the filter selects few of many.
func (q *quarantine) list(c *request) (any, error) {
	f := filterOf(c.query)
	limit, err := c.number("limit", listSize, 1, maxListSize)
	if err != nil {
		return nil, err
	}
	records := []rejectLine{}
	var next rejectPlace
	end, err := q.scan(c, c.sorted(), &f, time.Now(), parsePlace(c.query.Get("after")), func(r *forebay.RejectedRecord) scanStep {
		if !f.selects(r) {
			return scanOn
		}
		if len(records) == limit { // there is one more
			last := records[limit-1]
			next = rejectPlace{last.Sink, last.ID}
			return scanStop
		}
		records = append(records, lineOf(r))
		return scanOn
	})
	if errors.Is(err, buffer.ErrUnknownRejected) {
		err = refuse(http.StatusBadRequest, "after is no place of this list.")
	}
	if err != nil {
		return nil, err
	}
	if next.sink == "" {
		next = end
	}
	return map[string]any{"records": records, "next": next.String()}, nil
}

// matching returns the ids of the oldest records that a filter selects, of all its sinks together, at most most, by sink.
func (q *quarantine) matching(c *request, f *rejectFilter, most int) (sets []bulkSet, n int, err error) {
	var oldest oldestRecords
	after, stats := rejectPlace{}, c.sorted()
	for {
		end, err := q.scan(c, stats, f, time.Now(), after, func(r *forebay.RejectedRecord) scanStep {
			if !f.selects(r) {
				return scanOn
			}
			if oldest.Len() == most && !r.At.Before(oldest[0].at) {
				return scanNextSink // the records after it are newer
			}
			heap.Push(&oldest, datedRecord{r.At, r.Source + "/" + r.Sink, r.ID})
			if oldest.Len() > most {
				heap.Pop(&oldest)
			}
			return scanOn
		})
		if err != nil {
			return nil, 0, err
		}
		if end.sink == "" {
			break
		}
		if c.ctx.Err() != nil {
			return nil, 0, context.Cause(c.ctx)
		}
		after = end
	}
	slices.SortFunc(oldest, func(a, b datedRecord) int { return cmp.Or(cmp.Compare(a.sink, b.sink), a.compare(b)) })
	for _, r := range oldest {
		if len(sets) == 0 || sets[len(sets)-1].sink != r.sink {
			sets = append(sets, bulkSet{sink: r.sink})
		}
		last := &sets[len(sets)-1]
		last.ids = append(last.ids, r.id)
	}
	return sets, len(oldest), nil
}

// datedRecord is a record in a heap of the oldest ones, whose first is the newest of them.
type datedRecord struct {
	at       time.Time
	sink, id string
}

func (r datedRecord) compare(o datedRecord) int {
	return cmp.Or(r.at.Compare(o.at), cmp.Compare(r.sink, o.sink), cmp.Compare(r.id, o.id))
}

type oldestRecords []datedRecord

func (o oldestRecords) Len() int           { return len(o) }
func (o oldestRecords) Less(i, j int) bool { return o[i].compare(o[j]) > 0 }
func (o oldestRecords) Swap(i, j int)      { o[i], o[j] = o[j], o[i] }
func (o *oldestRecords) Push(v any)        { *o = append(*o, v.(datedRecord)) }

func (o *oldestRecords) Pop() any {
	last := (*o)[len(*o)-1]
	*o = (*o)[:len(*o)-1]
	return last
}
