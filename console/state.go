package console

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
)

// sinkState is the state shown with a sink, worst last.
type sinkState uint8

const (
	stateIdle sinkState = iota
	stateFlows
	stateRemoved
	stateLate
	stateFails
	stateBlocked
	stateRefuses
)

// word is the word of a state. The script and the style sheet choose icon and colour by it.
func (s sinkState) word() string {
	return [...]string{"idle", "flows", "removed", "late", "fails", "blocked", "refuses"}[s]
}

// trouble reports whether an operator should look.
func (s sinkState) trouble() bool { return s >= stateLate }

// A level is late when its oldest row waits lateFrom times as long as the triggers promise.
const lateFrom = 2

// sinkNow is the part of a sample about one sink.
type sinkNow struct {
	*sample
	i int
}

func (s *sample) sink(i int) sinkNow { return sinkNow{s, i} }

// failing returns the oldest file whose upload or import has failed, and how many files and rows wait with or after it.
func (k sinkNow) failing() (first *buffer.FileStats, files int, rows int64) {
	all := k.stats.Sinks[k.i].Files
	for i := range all {
		f := &all[i]
		if !f.FinishedAt.IsZero() {
			continue
		}
		if first == nil && (f.Attempt == 0 || f.State == buffer.FileDiscarded || f.State == buffer.FileExpired) {
			continue
		}
		if first == nil {
			first = f
		}
		if f.State != buffer.FileWriting || f.Attempt > 0 {
			files++
			rows += f.Level.Rows
		}
	}
	return first, files, rows
}

// oldest is the age of the oldest row that is not in the table, 0 if none waits.
func (k sinkNow) oldest() time.Duration {
	s := &k.stats.Sinks[k.i]
	return max(k.age(s.Local), k.age(s.Staging))
}

// first is oldest as a time that runs.
func (k sinkNow) first() aged { return aged{k.at.Add(-k.oldest()), k.at} }

func (s *sample) age(l buffer.Level) time.Duration {
	if l.Rows == 0 || l.FirstAt.IsZero() {
		return 0
	}
	return max(0, s.at.Sub(l.FirstAt))
}

// lateness is the age of the oldest row of each level, as a multiple of the interval of the triggers; 0 for an empty level.
func (k sinkNow) lateness() (local, staging float64) {
	s := &k.stats.Sinks[k.i]
	if s.Upload.Interval > 0 {
		local = k.age(s.Local).Seconds() / s.Upload.Interval.Seconds()
	}
	if promise := s.Upload.Interval + s.Import.Interval; promise > 0 {
		staging = k.age(s.Staging).Seconds() / promise.Seconds()
	}
	return local, staging
}

func (k sinkNow) state() sinkState { return k.all().states[k.i] }

// judge computes the state.
func (k sinkNow) judge() sinkState {
	s := &k.stats.Sinks[k.i]
	waiting := s.Local.Rows + s.Staging.Rows
	failing, _, _ := k.failing()
	local, staging := k.lateness()
	switch {
	case k.full():
		return stateRefuses
	case failing != nil && (failing.Permanent || failing.Attempt >= 3):
		return stateBlocked
	case failing != nil:
		return stateFails
	case local >= lateFrom || staging >= lateFrom:
		return stateLate
	case s.Dropped && waiting == 0:
		return stateRemoved
	case waiting == 0 && k.flows[k.i].in == 0:
		return stateIdle
	}
	return stateFlows
}

// full reports whether the sink refuses rows because its share of the room is used.
func (k sinkNow) full() bool {
	return k.stats.MaxSinkBytes > 0 && k.stats.Sinks[k.i].WaitingBytes >= k.stats.MaxSinkBytes
}

// used is the number of bytes that count against the bound of all sinks.
func (s *sample) used() int64 { return s.stats.PendingBytes + s.stats.LocalBytes + s.stats.StagedBytes }

// estimateOver is the rate, in rows per second, that an estimate needs at least.
const estimateOver = 1

// why is the sentence of a sink, the first that fits.
func (k sinkNow) why() sentence {
	s := &k.stats.Sinks[k.i]
	if k.full() {
		return said("Refusing new records", since(s.RefusingSince), ": ", size(s.WaitingBytes).Text, " of ", size(k.stats.MaxSinkBytes).Text, " of this sink's disk limit is used.", notTaken(s))
	}
	if failing, files, rows := k.failing(); failing != nil {
		return k.whyFailing(failing, files, rows)
	}
	if s.Refused != "" {
		if !k.words {
			return said("The columns of the new definition are refused, so rows keep the earlier ones.", needsRecords)
		}
		return said("The columns of the new definition are refused, so rows keep the earlier ones: ", visible(s.Refused))
	}
	if late := k.slowCall(); late > 0 {
		return said("The driver has not returned from an import for ", aged{k.at.Add(-late), k.at}, ".")
	}
	return said(k.whyWaiting(), lostOf(s))
}

// notTaken says how many records a sink without room has not taken: refused, or lost with a failure that was reported to their caller.
func notTaken(s *forebay.SinkStats) string {
	n := s.Rejected["failed"]
	if n == 0 {
		return ""
	}
	return " " + count(n).Text + verb(n, " record was", " records were") + " not taken since the start."
}

// slowFrom is how long an import runs before a sentence says so.
const slowFrom = time.Minute

// slowCall is how long the longest import runs, 0 below slowFrom.
func (k sinkNow) slowCall() (longest time.Duration) {
	for i := range k.stats.Sinks[k.i].Files {
		if at := k.stats.Sinks[k.i].Files[i].CallSince; !at.IsZero() {
			longest = max(longest, k.at.Sub(at))
		}
	}
	if longest < slowFrom {
		return 0
	}
	return longest
}

// lostOf says which rows of a sink were lost, if any.
func lostOf(s *forebay.SinkStats) string {
	if s.Expired.Rows+s.Damaged.Rows+s.Unstored == 0 {
		return ""
	}
	return " Lost:" + lost(s.Expired.Rows, s.Damaged.Rows, s.Unstored)
}

// whyWaiting is the sentence of a sink that works.
func (k sinkNow) whyWaiting() sentence {
	s, f := &k.stats.Sinks[k.i], k.flows[k.i]
	waiting := s.Local.Rows + s.Staging.Rows
	net, share := f.in-f.out, float64(0)
	if s.Accepted > 0 && waiting > 0 {
		share = float64(s.WaitingBytes) / float64(waiting)
	}
	local, staging := k.lateness()
	late := local >= lateFrom || staging >= lateFrom
	switch {
	case f.known && late && net > estimateOver && share > 0:
		left := float64(k.stats.MaxSinkBytes-s.WaitingBytes) / (net * share)
		return said("In ", rate(f.in).Text, ", out ", rate(f.out).Text, " rows/s: the disk limit is reached in about ", estimate(left), ".")
	case f.known && late && net < -estimateOver:
		return said("Catching up: ", rowsOf(waiting), " wait, about ", estimate(float64(waiting)/-net), " at this rate.")
	case waiting > 0:
		return said(rowsOf(waiting), verb(waiting, " waits", " wait"), ", oldest ", k.first(), ".", k.nextStep())
	case s.Accepted == 0:
		return said("No row yet.")
	case f.lastRow.IsZero():
		return said("Nothing waits.")
	}
	return said("Nothing waits. Last row ", aged{f.lastRow, k.at}, " ago.")
}

// since is " since HH:MM", or nothing for the zero time, when no row has been refused yet.
func since(at time.Time) sentence {
	if at.IsZero() {
		return nil
	}
	return said(" since ", at)
}

// estimate is a number of seconds in words, at most a year.
func estimate(seconds float64) string {
	return coarse(time.Duration(min(seconds, 365*86400)) * time.Second)
}

func verb(n int64, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// nextStep says when the next interval ends.
func (k sinkNow) nextStep() sentence {
	s := &k.stats.Sinks[k.i]
	for i := range s.Files {
		f := &s.Files[i]
		switch {
		case f.Leased:
			return said(" Another node imports into the table.")
		case !f.UploadAt.IsZero():
			return said(" Next upload in ", until{f.UploadAt, k.at}, " (interval ", coarse(s.Upload.Interval), ").")
		case !f.ImportAt.IsZero():
			return said(" Next import in ", until{f.ImportAt, k.at}, " (interval ", coarse(s.Import.Interval), ").")
		}
	}
	return nil
}

// whyFailing states the fault, its start, the waiting rows, the next attempt and the operator's next step, in this order.
func (k sinkNow) whyFailing(f *buffer.FileStats, files int, rows int64) sentence {
	out := said(stepOf(f), " fails: ", k.errorOf(f), " ")
	if f.FirstFailed.IsZero() {
		out = said(out, attempts(f), ".")
	} else {
		out = said(out, "Since ", f.FirstFailed, ", ", attempts(f), ".")
	}
	out = said(out, " ", rowsOf(rows), " in ", count(int64(files)).Text, verb(int64(files), " file", " files"), verb(rows, " waits.", " wait."))
	if f.RetryAfter.After(k.at) {
		out = said(out, " Next attempt in ", until{f.RetryAfter, k.at}, ".")
	}
	if !f.FirstFailed.IsZero() && k.stats.Retention > 0 {
		out = said(out, " Rows expire ", f.FirstFailed.Add(k.stats.Retention), ".")
	}
	if f.Permanent {
		out = said(out, " An operator must fix the cause.")
	}
	return out
}

func attempts(f *buffer.FileStats) string {
	if f.Attempt == 1 {
		return "1 attempt"
	}
	return count(int64(f.Attempt)).Text + " attempts"
}

// needsRecords stands for a driver's message because databases quote the values that they refuse, which are contents of rows.
const needsRecords = " The error itself needs the right to records."

// notReady is why the engine accepts no records.
func (s *sample) notReady() string {
	if s.words {
		return visible(s.ready.Error())
	}
	if _, fenced := errors.AsType[*buffer.FencedError](s.ready); fenced {
		return "another owner has its changelog." + needsRecords
	}
	return "its local disk has failed, and it reads its state back." + needsRecords
}

// top is the part that every page shows, the verdict, which is the title of the tab too.
type top struct {
	State   string   `json:"state"`
	Verdict sentence `json:"verdict"`
	// Banner is a condition of the whole engine, empty if there is none.
	Banner sentence `json:"banner,omitempty"`
	// Closed is set when the numbers no longer change.
	Closed bool `json:"closed,omitempty"`
}

func topOf(s *sample) top {
	t := top{State: "ok"}
	sinks, held, refusing, flowing := len(s.stats.Sinks), 0, 0, 0
	var oldest time.Duration
	var first aged
	var expired, damaged, unstored int64
	for i := range s.stats.Sinks {
		k := s.sink(i)
		switch st := k.state(); {
		case st == stateRefuses:
			refusing++
		case st.trouble():
			held++
		case st == stateFlows:
			flowing++
		}
		if age := k.oldest(); age > oldest {
			oldest, first = age, k.first()
		}
		expired += s.stats.Sinks[i].Expired.Rows
		damaged += s.stats.Sinks[i].Damaged.Rows
		unstored += s.stats.Sinks[i].Unstored
	}
	switch {
	case s.closed:
		t.State, t.Closed = "error", true
		t.Verdict = said("The engine is closed. These are its last numbers.")
	case s.ready != nil:
		t.State = "error"
		t.Verdict = said("Nothing is taken: the engine is not ready.")
		t.Banner = said("The engine accepts no records: ", s.notReady())
	case !s.stats.RefusingSince.IsZero(), s.stats.MaxDiskBytes > 0 && s.used() >= s.stats.MaxDiskBytes:
		t.State = "error"
		t.Verdict = said("Refusing records", since(s.stats.RefusingSince), ": the disk limit is reached.", refusedCalls(s.stats.Overloads))
	case refusing > 0:
		t.State = "error"
		t.Verdict = said("Refusing records of ", ofSinks(refusing, sinks), ".", refusedCalls(s.stats.Overloads))
	case held > 0:
		t.State = "warn"
		t.Verdict = said(ofSinks(held, sinks), verb(int64(held), " is", " are"), " held up.", lost(expired, damaged, unstored))
	case expired+damaged+unstored > 0:
		t.State = "warn"
		t.Verdict = said("Rows were given up:", lost(expired, damaged, unstored))
		if at := s.lastExpired(); !at.IsZero() {
			t.Verdict = said(t.Verdict, " The last ones expired at ", at, ".")
		}
	case sinks == 0:
		t.Verdict = said("No sink is defined yet.")
	case flowing == 0:
		t.Verdict = said(idleSinks(sinks), ". Nothing waits.")
	case oldest == 0:
		t.Verdict = said(allSinks(sinks), ". Nothing waits.")
	default:
		t.Verdict = said(allSinks(sinks), ". Oldest waiting row: ", first, ".")
	}
	return t
}

// lastExpired is when the newest file expired, among the files that the engine still lists, or zero without one.
func (s *sample) lastExpired() (at time.Time) {
	for i := range s.stats.Sinks {
		for j := range s.stats.Sinks[i].Files {
			if f := &s.stats.Sinks[i].Files[j]; f.State == buffer.FileExpired && f.FinishedAt.After(at) {
				at = f.FinishedAt
			}
		}
	}
	return at
}

// refusedCalls says how many calls were refused.
func refusedCalls(n int64) string {
	if n == 0 {
		return ""
	}
	return " " + count(n).Text + verb(n, " call was", " calls were") + " refused since the start."
}

func ofSinks(n, all int) string {
	return fmt.Sprintf("%s of %s sinks", grouped(int64(n)), grouped(int64(all)))
}

func allSinks(n int) string {
	if n == 1 {
		return "The sink flows"
	}
	return fmt.Sprintf("All %s sinks flow", grouped(int64(n)))
}

func idleSinks(n int) string {
	if n == 1 {
		return "The sink is idle"
	}
	return fmt.Sprintf("All %s sinks are idle", grouped(int64(n)))
}

// lost says how many rows were lost, or that none was.
func lost(expired, damaged, unstored int64) string {
	var parts []string
	for _, p := range []struct {
		n    int64
		word string
	}{{expired, "expired"}, {damaged, "damaged on disk"}, {unstored, "not stored since the start"}} {
		if p.n > 0 {
			parts = append(parts, count(p.n).Text+" "+p.word)
		}
	}
	if len(parts) == 0 {
		return " Nothing is lost."
	}
	return " " + strings.Join(parts, ", ") + "."
}
