// Package duration reads durations with days, as operators write ages: 30d, or 1d12h. A day has 24 hours.
package duration

import (
	"errors"
	"flag"
	"math"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

var errForm = errors.New("want a duration such as 90s, 36h or 30d")

// Parse reads a duration in the form of [time.ParseDuration]. It may begin with days.
func Parse(text string) (time.Duration, error) {
	unsigned, negative := strings.CutPrefix(text, "-")
	number, rest, hasDays := strings.Cut(unsigned, "d")
	if !hasDays {
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, errForm
		}
		return d, nil
	}
	days, err := strconv.ParseFloat(number, 64)
	if err != nil || strings.Trim(number, "0123456789.") != "" {
		return 0, errForm
	}
	var more time.Duration
	if rest != "" {
		if more, err = time.ParseDuration(rest); err != nil || strings.Trim(rest[:1], "0123456789.") != "" {
			return 0, errForm
		}
	}
	total := days*float64(day) + float64(more)
	if total >= math.MaxInt64 {
		return 0, errors.New("the duration is longer than 292 years")
	}
	// The sum uses whole numbers, because a float64 does not have every nanosecond of a long time.
	d := time.Duration(math.Round(days*float64(day))) + more
	if negative {
		d = -d
	}
	return d, nil
}

// Var is [flag.FlagSet.DurationVar] with days.
func Var(flags *flag.FlagSet, p *time.Duration, name string, value time.Duration, usage string) {
	*p = value
	flags.Var((*flagValue)(p), name, usage)
}

type flagValue time.Duration

// String implements [flag.Value].
func (v *flagValue) String() string { return time.Duration(*v).String() }

// Set implements [flag.Value].
func (v *flagValue) Set(text string) error {
	d, err := Parse(text)
	if err == nil {
		*v = flagValue(d)
	}
	return err
}
