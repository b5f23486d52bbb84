package console

import (
	"strconv"
	"strings"
	"time"
)

// picture is the overview, with two levels with water, and the table after them. The height of the water is time, the age of the oldest row
// divided by the interval of the triggers. Bytes against a bound of gigabytes would be a flat line on every healthy day.
type picture struct {
	// Of says which sinks are drawn, in a picture of several.
	Of     string   `json:"of,omitempty"`
	In     cell     `json:"in"`
	Levels [2]level `json:"levels"`
	Table  cell     `json:"table"`
	Out    cell     `json:"out"`
	// Newest says when the newest row of the table was accepted.
	Newest sentence `json:"newest,omitempty"`
	// Disk is the disk space that waiting rows use, of the limit. Percent is for the bar, 0 below 1 %.
	Disk    string `json:"disk,omitempty"`
	Percent int    `json:"percent,omitempty"`
}

// level is one of local and staging.
type level struct {
	Name  string `json:"name"`
	Rows  cell   `json:"rows"`
	Bytes cell   `json:"bytes"`
	// Oldest is the age of the oldest row, nil without rows. The triggers promise that it waits no longer than Within, in milliseconds, which is
	// Promise in words. The height of the water is Oldest divided by Within.
	Oldest  *aged  `json:"oldest,omitempty"`
	Within  int64  `json:"within,omitempty"`
	Promise string `json:"promise,omitempty"`
	// At is the sink whose rows wait longest, in a picture of all.
	At string `json:"at,omitempty"`
	// State is "blocked" or "late" or empty.
	State string `json:"state,omitempty"`
}

// promises are the greatest ages that the triggers leave on each level.
func (k sinkNow) promises() (local, staging time.Duration) {
	s := &k.stats.Sinks[k.i]
	return s.Upload.Interval, s.Upload.Interval + s.Import.Interval
}

func (l *level) wait(oldest aged, promise time.Duration, state sinkState) {
	l.Oldest, l.Within, l.Promise = &oldest, promise.Milliseconds(), coarse(promise)
	if state.trouble() {
		l.State = state.word()
	}
}

// picture shows one sink.
func (k sinkNow) picture() picture {
	s, f := &k.stats.Sinks[k.i], k.flows[k.i]
	p := k.newPicture(f, s.Target.Rows, s.WaitingBytes, k.stats.MaxSinkBytes)
	p.Levels[0].Rows, p.Levels[0].Bytes = count(s.Local.Rows), size(s.Local.StoredBytes)
	p.Levels[1].Rows, p.Levels[1].Bytes = count(s.Staging.Rows), size(s.Staging.StoredBytes)
	firstPromise, secondPromise := k.promises()
	if s.Local.Rows > 0 {
		p.Levels[0].wait(k.agedOf(s.Local), firstPromise, k.state())
	}
	if s.Staging.Rows > 0 {
		p.Levels[1].wait(k.agedOf(s.Staging), secondPromise, k.state())
	}
	if s.Target.Rows > 0 && !s.Target.LastAt.IsZero() {
		p.Newest = said("newest row accepted ", aged{s.Target.LastAt, k.at}, " ago")
	}
	return p
}

// newPictureOfAll shows the sums of all sinks.
func (s *sample) newPictureOfAll() picture {
	all := make([]int, len(s.stats.Sinks))
	for i := range all {
		all[i] = i
	}
	p := s.newPictureOf(all, s.total, s.used(), s.stats.MaxDiskBytes)
	p.Of = "all sinks"
	return p
}

// newPictureOfSome shows the sums of the sinks that a filter leaves. Their room has no separate bound.
func (s *sample) newPictureOfSome(filter string, chosen []int) picture {
	sum, used := flow{known: len(chosen) > 0}, int64(0)
	for _, i := range chosen {
		sum.in += s.flows[i].in
		sum.out += s.flows[i].out
		sum.known = sum.known && s.flows[i].known
		used += s.stats.Sinks[i].WaitingBytes
	}
	p := s.newPictureOf(chosen, sum, used, 0)
	p.Of = count(int64(len(chosen))).Text + verb(int64(len(chosen)), " sink", " sinks") + " with " + strconv.Quote(filter)
	if source, one := strings.CutSuffix(filter, "/"); one {
		p.Of = "source " + source + ", " + count(int64(len(chosen))).Text + verb(int64(len(chosen)), " sink", " sinks")
	}
	return p
}

// newPictureOf shows the sums of some sinks, with the water of the latest sink.
func (s *sample) newPictureOf(sinks []int, f flow, used, bound int64) picture {
	var table, localRows, stagingRows, localBytes, stagingBytes int64
	var newest time.Time
	worst, times := [2]int{-1, -1}, [2]float64{}
	for _, i := range sinks {
		k := &s.stats.Sinks[i]
		table += k.Target.Rows
		localRows += k.Local.Rows
		stagingRows += k.Staging.Rows
		localBytes += k.Local.StoredBytes
		stagingBytes += k.Staging.StoredBytes
		if k.Target.Rows > 0 && k.Target.LastAt.After(newest) {
			newest = k.Target.LastAt
		}
		local, staging := s.sink(i).lateness()
		if k.Local.Rows > 0 && (worst[0] < 0 || local > times[0]) {
			worst[0], times[0] = i, local
		}
		if k.Staging.Rows > 0 && (worst[1] < 0 || staging > times[1]) {
			worst[1], times[1] = i, staging
		}
	}
	p := s.newPicture(f, table, used, bound)
	p.Levels[0].Rows, p.Levels[0].Bytes = count(localRows), size(localBytes)
	p.Levels[1].Rows, p.Levels[1].Bytes = count(stagingRows), size(stagingBytes)
	for n, i := range worst {
		if i < 0 {
			continue
		}
		k := s.sink(i)
		var promises [2]time.Duration
		promises[0], promises[1] = k.promises()
		oldest := [2]aged{s.agedOf(s.stats.Sinks[i].Local), s.agedOf(s.stats.Sinks[i].Staging)}
		p.Levels[n].wait(oldest[n], promises[n], s.derived.states[i])
		p.Levels[n].At = s.stats.Sinks[i].ID
	}
	if !newest.IsZero() {
		p.Newest = said("newest row accepted ", aged{newest, s.at}, " ago")
	}
	return p
}

func (s *sample) newPicture(f flow, table, used, bound int64) picture {
	p := picture{In: cell{Text: unknown}, Out: cell{Text: unknown}, Table: count(table)}
	p.Levels[0].Name, p.Levels[1].Name = "Local", "Staging"
	if f.known {
		p.In, p.Out = rate(f.in), rate(f.out)
	}
	if bound == 0 && used > 0 {
		p.Disk = "Waiting rows use " + size(used).Text
	}
	if bound > 0 {
		p.Disk = "Waiting rows use " + size(used).Text + " of the disk limit of " + size(bound).Text
		if p.Percent = int(min(100, float64(used)*100/float64(bound))); p.Percent > 0 {
			p.Disk += ", " + strconv.Itoa(p.Percent) + " %"
		}
	}
	return p
}
