package trigger

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Limits are the allowed range and the defaults of the conditions of one step.
type Limits struct {
	// Name is the step, "upload" or "import". It selects the setting keys in error texts.
	Name string
	// Min and Max are themselves allowed.
	Min, Max, Default Conditions
}

// Units of byte sizes: one KB is 1024 bytes.
const (
	kilobyte = 1 << (10 * (iota + 1))
	megabyte
)

// Upload returns the limits of step 1, local to staging, as in the published service.
func Upload() Limits {
	return Limits{
		Name:    "upload",
		Min:     Conditions{Interval: time.Second, Size: 100, Count: 1},
		Max:     Conditions{Interval: 30 * time.Minute, Size: 50 * megabyte, Count: 10_000_000},
		Default: Conditions{Interval: 30 * time.Second, Size: 5 * megabyte, Count: 10_000},
	}
}

// Import returns the limits of step 2, staging to table, as in the published service.
func Import() Limits {
	return Limits{
		Name:    "import",
		Min:     Conditions{Interval: 30 * time.Second, Size: 100, Count: 1},
		Max:     Conditions{Interval: 24 * time.Hour, Size: 500 * megabyte, Count: 10_000_000},
		Default: Conditions{Interval: time.Minute, Size: 50 * megabyte, Count: 50_000},
	}
}

// WithDefaults returns c with its zero fields set to the defaults.
func (l Limits) WithDefaults(c Conditions) Conditions {
	c.Interval = cmp.Or(c.Interval, l.Default.Interval)
	c.Size = cmp.Or(c.Size, l.Default.Size)
	c.Count = cmp.Or(c.Count, l.Default.Count)
	return c
}

// Validate checks c, completed by the defaults. The error joins one [*LimitError] for every breach, in the order interval,
// size, count.
func (l Limits) Validate(c Conditions) error {
	c = l.WithDefaults(c)
	count := func(n int64) string { return strconv.FormatInt(n, 10) }
	return errors.Join(
		check(l, "interval", c.Interval, l.Min.Interval, l.Max.Interval, time.Duration.String),
		check(l, "size", c.Size, l.Min.Size, l.Max.Size, FormatSize),
		check(l, "count", c.Count, l.Min.Count, l.Max.Count, count),
	)
}

func check[T int64 | time.Duration](l Limits, condition string, v, lo, hi T, format func(T) string) error {
	if lo <= v && v <= hi {
		return nil
	}
	return &LimitError{Key: l.key(condition), Value: format(v), Min: format(lo), Max: format(hi), Below: v < lo}
}

func (l Limits) key(condition string) string {
	switch l.Name {
	case "upload":
		return "storage.level.staging.upload.trigger." + condition
	case "import":
		return "storage.level.target.import.trigger." + condition
	}
	return l.Name + ".trigger." + condition
}

// LimitError says that a condition is outside its limits.
type LimitError struct {
	// Key is the setting, for example "storage.level.staging.upload.trigger.interval".
	Key string
	// Value, Min and Max are written as in settings: "30s", "5MB", "10000".
	Value, Min, Max string
	// Below is set if Value is under Min. Otherwise Value is over Max.
	Below bool
}

func (e *LimitError) Error() string {
	if e.Below {
		return fmt.Sprintf("%s: %s is below the minimum %s, use %s to %s", e.Key, e.Value, e.Min, e.Min, e.Max)
	}
	return fmt.Sprintf("%s: %s is above the maximum %s, use %s to %s", e.Key, e.Value, e.Max, e.Min, e.Max)
}
