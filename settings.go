package forebay

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/trigger"
)

// SyncMode says what an acknowledgement means. The Stream API has it in
// storage.level.local.encoding.sync.wait.
type SyncMode uint8

const (
	// SyncDefault takes the source's mode, and SyncWait where the source has none either.
	SyncDefault SyncMode = iota
	// SyncWait acknowledges a record once it is on local disk. Use it when clients retry, for at-least-once delivery.
	SyncWait
	// SyncUnsafe acknowledges a record once it is in memory. A power cut or a killed process can lose the records accepted
	// in about the last Options.Buffer.SyncInterval. Use it when clients do not retry, for at-most-once delivery with more throughput.
	SyncUnsafe
)

// Compression is how the rows of a sink are stored in local and staging.
type Compression uint8

const (
	// CompressionDefault takes the source's, and Gzip where the source has none either.
	CompressionDefault Compression = iota
	// CompressionNone stores plain CSV.
	CompressionNone
	// CompressionGzip stores gzip members, level 1.
	CompressionGzip
	// CompressionZstd stores Zstandard frames, the fastest level.
	CompressionZstd
)

// Settings of a source or a sink. A zero field is inherited. A sink takes the value of its source, a source the default. A
// change takes effect at once. Rows that wait are imported, and new rows follow the new settings.
type Settings struct {
	// Sync says what an acknowledgement means. Default: SyncWait.
	Sync SyncMode
	// Upload is the condition of step 1, local to staging. Default: 30 s, 5 MB or 10,000 rows, whichever comes first.
	// Package trigger has the limits.
	Upload trigger.Conditions
	// Import is the condition of step 2, staging to table. Default: 1 min, 50 MB or 50,000 rows. The
	// interval is at least [buffer.Tuning.MinImportInterval], 30 s by default.
	Import trigger.Conditions
	// Compression of the stored rows. Default: CompressionGzip.
	Compression Compression
}

// over returns s with its zero fields taken from base.
func (s Settings) over(base Settings) Settings {
	if s.Sync == SyncDefault {
		s.Sync = base.Sync
	}
	if s.Compression == CompressionDefault {
		s.Compression = base.Compression
	}
	s.Upload = overConditions(s.Upload, base.Upload)
	s.Import = overConditions(s.Import, base.Import)
	return s
}

func overConditions(c, base trigger.Conditions) trigger.Conditions {
	c.Interval = cmp.Or(c.Interval, base.Interval)
	if c.Size == 0 {
		c.Size = base.Size
	}
	c.Count = cmp.Or(c.Count, base.Count)
	return c
}

func (s Settings) validate(imports trigger.Limits) error {
	var problems []error
	if s.Sync > SyncUnsafe {
		problems = append(problems, fmt.Errorf("field Sync is %d, which is unknown", s.Sync))
	}
	if s.Compression > CompressionZstd {
		problems = append(problems, fmt.Errorf("field Compression is %d, which is unknown", s.Compression))
	}
	problems = append(problems, asFields("Upload", trigger.Upload().Validate(s.Upload))...)
	problems = append(problems, asFields("Import", imports.Validate(s.Import))...)
	return errors.Join(problems...)
}

// asFields names faulty conditions by the fields of [Settings]. Package trigger uses the keys of the Stream API.
func asFields(step string, err error) []error {
	if err == nil {
		return nil
	}
	var list []error
	for _, err := range each(err) {
		if limit, ok := errors.AsType[*trigger.LimitError](err); ok {
			named := *limit
			condition := named.Key[strings.LastIndexByte(named.Key, '.')+1:]
			named.Key = step + "." + strings.ToUpper(condition[:1]) + condition[1:]
			err = &named
		}
		list = append(list, err)
	}
	return list
}

// effectiveSettings have no zero field left to inherit.
type effectiveSettings struct {
	sync     SyncMode
	upload   trigger.Conditions
	imports  trigger.Conditions
	encoding driver.Encoding
}

func (s Settings) effective() effectiveSettings {
	e := effectiveSettings{
		sync:     s.Sync,
		upload:   trigger.Upload().WithDefaults(s.Upload),
		imports:  trigger.Import().WithDefaults(s.Import),
		encoding: driver.Gzip,
	}
	if e.sync == SyncDefault {
		e.sync = SyncWait
	}
	switch s.Compression {
	case CompressionNone:
		e.encoding = driver.None
	case CompressionZstd:
		e.encoding = driver.Zstd
	}
	return e
}

// OnReject says what becomes of a record that a sink cannot map.
type OnReject uint8

const (
	// Refuse means that the caller gets the error, and nothing is kept. It is the default.
	Refuse OnReject = iota
	// Quarantine means that the record is kept in the quarantine of the sink, durably before the call returns, even with SyncUnsafe. Its result is
	// [Quarantined]. At the bounds of the quarantine it is [Failed] with a [*buffer.OverloadError], even in calls that wait for room. A
	// record that is larger than the whole quarantine, or that has no JSON form, is [Rejected].
	Quarantine
)

func (o OnReject) word() string {
	switch o {
	case Refuse:
		return "refuse"
	case Quarantine:
		return "quarantine"
	}
	return ""
}

// String returns "refuse" or "quarantine".
func (o OnReject) String() string { return cmp.Or(o.word(), fmt.Sprintf("OnReject(%d)", uint8(o))) }

// MarshalText returns the text of String.
func (o OnReject) MarshalText() ([]byte, error) {
	if o.word() == "" {
		return nil, fmt.Errorf("forebay: %s is unknown", o)
	}
	return []byte(o.word()), nil
}

// UnmarshalText reads "refuse", "quarantine" or nothing, which is the default.
func (o *OnReject) UnmarshalText(text []byte) error {
	switch string(text) {
	case "", Refuse.word():
		*o = Refuse
	case Quarantine.word():
		*o = Quarantine
	default:
		return fmt.Errorf("OnReject is %q, must be %q or %q", text, Refuse, Quarantine)
	}
	return nil
}
