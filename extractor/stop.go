package extractor

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/forebay/forebay/extractor/internal/datetext"
	"github.com/forebay/forebay/extractor/internal/tree"
)

// stopConfig are the conditions that end a job in addition to the rule of its scroller. The zero value has none.
type stopConfig struct {
	flag *flagStop

	pages, volume int64
	seconds       int64
	phrase        string // of time, when it is no number

	count      int64
	countField string
}

// flagStop is nextPageFlag, a field in the root of the response, or at a path if there is a delimiter.
type flagStop struct {
	field, delimiter string
	stopOn, ifNotSet bool
}

func parseStops(s *section) stopConfig {
	var sc stopConfig
	if f := s.section("nextPageFlag"); f != nil {
		sc.flag = &flagStop{field: f.required("field"), delimiter: f.text("delimiter", "")}
		strict := func(key string, byDefault bool) bool {
			n, ok := f.get(key)
			if ok && n.Kind() != tree.Bool {
				f.wrong(key, "must be true or false")
			}
			return ok && n.Bool() || !ok && byDefault
		}
		if _, ok := f.get("stopOn"); !ok {
			f.wrong("stopOn", "is required")
		}
		sc.flag.stopOn = strict("stopOn", false)
		sc.flag.ifNotSet = strict("ifNotSet", sc.flag.stopOn)
		f.done()
	}
	if f := s.section("forceStop"); f != nil {
		sc.pages, sc.volume = f.natural("pages", 0), f.natural("volume", 0)
		if n, ok := f.get("time"); ok {
			if _, isInteger := n.Digits(); isInteger {
				sc.seconds = f.natural("time", 0)
			} else if _, understood := datetext.Parse(n.Text(), time.Unix(0, 0)); understood {
				sc.phrase = n.Text()
			} else {
				f.wrong("time", "must be a number of seconds, or a time such as \"1 hour\"")
			}
		}
		f.done()
	}
	if f := s.section("limitStop"); f != nil {
		sc.count, sc.countField = f.natural("count", 0), f.text("field", "")
		if (sc.count == 0) == (sc.countField == "") {
			s.wrong("limitStop", "must have exactly one of count and field")
		}
		f.done()
	}
	return sc
}

// A stopper evaluates the conditions of one job run. Its counters cover all pages that were read.
type stopper struct {
	configs []stopConfig
	// Started is when the job began. After a resume the time between the runs is left out. Pages, Items and Volume count pages, items and
	// bytes that were read.
	Started time.Time
	Pages   int64
	Items   int64
	Volume  int64
	// scratch is memory for the text of a page.
	scratch []byte
	// misled is set when the job ends because the field of limitStop is not in the response. told is true if the configuration or the response leaves no
	// doubt that the job is to end.
	misled, told bool
}

// stop takes a page into account and returns why the job ends after it, "" when it continues.
func (st *stopper) stop(p *page, now time.Time) string {
	st.Pages++
	st.told = true
	st.Items += int64(p.items.Len())
	for _, c := range st.configs {
		if c.volume > 0 {
			var size byteCounter
			st.scratch = p.response.WriteJSON(&size, st.scratch, tree.Escaped)
			st.Volume += int64(size)
			break
		}
	}
	for _, check := range []func(*stopConfig, *page, time.Time) string{st.limit, st.force, st.nextPage} {
		for i := range st.configs {
			if reason := check(&st.configs[i], p, now); reason != "" {
				return reason
			}
		}
	}
	return ""
}

// A byteCounter counts the bytes written to it.
type byteCounter int64

func (c *byteCounter) Write(b []byte) (int, error) {
	*c += byteCounter(len(b))
	return len(b), nil
}

func (st *stopper) limit(c *stopConfig, p *page, _ time.Time) string {
	most := c.count
	switch {
	case c.countField != "":
		n, ok := p.response.At(c.countField, ".")
		if !ok {
			st.misled, st.told = true, false
			return fmt.Sprintf("limitStop: the response has no value at %q", c.countField)
		}
		if most = n.Cut(); most == 0 && n.Real() >= math.MaxInt64 {
			most = math.MaxInt64 // more than can be counted
		}
	case most == 0:
		return ""
	}
	if st.Items >= most {
		return fmt.Sprintf("limitStop: %d items of %d were read", st.Items, most)
	}
	return ""
}

func (st *stopper) force(c *stopConfig, _ *page, now time.Time) string {
	switch {
	case c.pages > 0 && st.Pages >= c.pages:
		return fmt.Sprintf("forceStop: %d pages were read", st.Pages)
	case c.seconds > 0 && now.Unix()-st.Started.Unix() >= c.seconds:
		return fmt.Sprintf("forceStop: %d seconds have passed", c.seconds)
	case c.volume > 0 && st.Volume > c.volume:
		return fmt.Sprintf("forceStop: %d bytes were read", st.Volume)
	}
	if c.phrase != "" {
		if until, ok := datetext.Parse(c.phrase, st.Started); ok && now.Unix() >= until.Unix() {
			return "forceStop: the time has passed: " + strings.TrimSpace(c.phrase)
		}
	}
	return ""
}

func (st *stopper) nextPage(c *stopConfig, p *page, _ time.Time) string {
	if c.flag == nil {
		return ""
	}
	value := c.flag.ifNotSet
	n, ok := c.flag.at(p.response)
	if ok {
		value = truth(n)
	}
	if value != c.flag.stopOn {
		return ""
	}
	if !ok {
		st.told = false
		return fmt.Sprintf("nextPageFlag: the response has no %q, which counts as %v", c.flag.field, value)
	}
	return fmt.Sprintf("nextPageFlag: %s counts as %v", c.flag.field, value)
}

// at returns the value of the flag in a response.
func (f *flagStop) at(response tree.Node) (tree.Node, bool) {
	if response.Kind() != tree.Object {
		return tree.Node{}, false
	}
	if f.delimiter != "" {
		return response.At(f.field, f.delimiter)
	}
	return response.Get(f.field)
}

// truth is the conversion of nextPageFlag: false, 0, null, "0" and the empty list are false, all else is true.
func truth(n tree.Node) bool { return !n.Empty() || n.Kind() == tree.String && n.Str() == "" }
