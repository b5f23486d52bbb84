package buffer

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/warnlog"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/trigger"
)

// Options of a [Buffer]. A zero field means its default.
type Options struct {
	// Staging and Target are required.
	Staging driver.Staging
	Target  driver.Target
	// Targets are additional targets by name. A sink uses the target that its Table.Target names. Each target has Tuning.Imports workers, so the
	// imports of one target never wait for the imports of a different target. A name must refer to the same target as long as rows or sinks use it.
	// Files that wait for a missing name are held and never expire. Default: all sinks use Target.
	Targets map[string]driver.Target
	// Leases lets one process at a time use the tables of an [driver.Exclusive] target. Default: none. Such a target has one process.
	Leases driver.Leases
	// TargetOf gives some sinks another target, by their ids. nil stands for Target. It must give the same target whenever it is asked. If it is a
	// [driver.Compactor], the table of such a sink is compacted until [SinkHandle.Forget], even after [SinkHandle.Drop] and without a definition in this
	// process. Default: all sinks have Target.
	TargetOf func(sinkID string) driver.Target
	// Changelog gets all batches of the local level, so that another machine can continue when this one is lost. A folder that was open
	// without it has changes that the log lacks, so make a [Buffer.Checkpoint] after Open, which [Restore] begins with. Default: none. Rows
	// are on the local disk alone.
	Changelog Changelog
	// OnDamage is for an owner with a Changelog, which has the data that this disk has lost. When rows or records of the local level cannot
	// be read back, or have been unreadable for Tuning.UnreadableAfter, OnDamage is called once, on a separate goroutine. Then the buffer
	// stops permanently. Every call gets a [*FailedError] with the [*StoreDamageError]. Nothing of the damage is written, neither here nor
	// to the Changelog. Rebuild the local level with [Restore]. The owner must remember to do that, because the next Open finds only damage
	// in its way, and then fails with the [*StoreDamageError]. OnDamage must not call the buffer. Close waits for it.
	//
	// Default: rows that cannot be read back are counted and listed as damaged, and the other rows continue, see [Damage].
	OnDamage func(*StoreDamageError)
	// Logger gets state changes and imports at Debug, failures of drivers at Warn, at a rising pace, losses and damage at Error. Default: warnings and errors go to [slog.Default]; [slog.DiscardHandler] silences them.
	Logger *slog.Logger

	// Meter gets the metrics of docs/metrics.md. Default: nothing is measured, at no cost.
	Meter metric.Meter
	// Hooks are called at events. Default: none.
	Hooks Hooks
	// SinkAttributes gives the attributes of a sink's measurements. Default: "sink", the id.
	SinkAttributes func(sinkID string) []attribute.KeyValue

	// Tuning is what an engine takes as well, as the Buffer of its options.
	Tuning
}

// DefaultMeasuredSinks is the default of [Tuning.MaxMeasuredSinks].
const DefaultMeasuredSinks = 1000

// Tuning has the bounds of memory and disk of the local level, its intervals, retries and retention. A zero field
// means its default.
type Tuning struct {
	// MaxPendingBytes bounds the row bytes that are accepted but not yet committed, over all sinks, and the memory held for batches that the
	// [Changelog] lacks, each with 1.5 KiB in addition to its bytes. Default: 64 MiB. At the bound Append waits for AdmissionWait and then
	// fails with an [*OverloadError]. Calls of an engine map records in another eighth.
	MaxPendingBytes int64
	// AdmissionWait is how long Append waits for room in memory. Default: 250 ms. Negative means not at all. [Buffer.AppendWhenRoom]
	// waits for all bounds, as long as its context.
	AdmissionWait time.Duration
	// MaxDiskBytes bounds the bytes that wait in local and staging, over all sinks, and the size of the local level's files,
	// in allocated blocks, together with the bytes that wait in staging. Default: 16 GiB. A part of it is kept for the work
	// of the store, so rows take three quarters of it at most. At the bound, and when the volume has no more room, Append
	// fails at once with an [*OverloadError].
	MaxDiskBytes int64
	// UnreadyWhenFull makes [Buffer.Ready] return an [*OverloadError] while rows are refused because of MaxDiskBytes or a full volume,
	// so that a balancer sends requests to other nodes. Default: a full disk does not change Ready, because a single node has no other
	// node that could take its requests.
	UnreadyWhenFull bool
	// MaxSinkBytes bounds the waiting rows of one sink, so that a sink whose table cannot take its rows does not use up the
	// room of all. See [DefinedSink.Full]. From half of it on, and of MaxDiskBytes, what gathers is imported at once, with the
	// reason [trigger.Pressure]. See [Tuning.Unreachable]. Default: half of MaxDiskBytes.
	MaxSinkBytes int64
	// SyncInterval is how long rows without a waiting caller may gather before a commit begins. Default: 25 ms, so
	// that they are on disk within 50 ms while a commit takes less than 25 ms.
	SyncInterval time.Duration

	// GzipLevel chooses the encoder of gzip chunks. The members are standard in both cases. Levels 1 to 9 use
	// klauspost/compress, for fewer bytes at the price of more CPU. Default: 0, the built-in encoder, which is made for
	// rows and faster than level 1.
	GzipLevel int

	// Uploads is the number of calls of Staging.Put that may run at once, over all sinks. Imports is the number of calls of Target.Import that may run
	// at once for each target. A sink has at most one upload and one import at a time. Up to 16 uploads of slices of at most 128 KiB count as
	// one call, and so does an import of up to 100 files of at most 128 KiB by a [driver.ManyImporter]. Default: 4 each.
	Uploads, Imports int
	// MinImportInterval is the least Interval that the conditions of an import may have. Default: 30 s, the limit of the
	// published service. Whoever embeds the buffer, with a target that takes many small imports well, may lower it to 1 s.
	MinImportInterval time.Duration
	// AttemptTimeout ends one call of a driver. Default: 15 min.
	AttemptTimeout time.Duration
	// Retry says when a failed call is repeated.
	Retry Retry
	// MaxMeasuredSinks is the largest number of sinks whose measurements have separate attributes. While there are more, each measurement is a
	// sum over all sinks, or the age of the oldest row of any, so that metrics stay small. Default: 1,000.
	MaxMeasuredSinks int
	// Retention is how long a file that cannot be imported is kept, from its first failure on. Afterwards its rows
	// expire. The time without the target of the file in the options does not count. Default: 7 days, as in the published service.
	Retention time.Duration

	// UnreadableAfter is how long the buffer retries a chunk that the disk fails to read, and a file with an object that is missing in
	// staging. Then the rows of the chunk or of the object count as damaged, and the other rows are imported. A cable or a controller may
	// cause a read error that passes. A bad sector never recovers. Default: 1 h.
	UnreadableAfter time.Duration
	// DamageRetention is how long a record of damage is listed by [Buffer.Damaged]. The ledger counts the rows forever.
	// Default: 90 days.
	DamageRetention time.Duration

	// KeyRetention is how long the key of a call is kept, from its rows on. See [Buffer.Claim]. A key may be kept up to a
	// sixteenth longer. Default: 24 h.
	KeyRetention time.Duration
	// MaxKeys and MaxKeyBytes bound the keys that are kept and the bytes that their receipts take on disk, which
	// MaxDiskBytes does not count. At a bound the oldest sixteenth is forgotten at once, with a warning. Calls continue, and those keys are
	// kept for less than KeyRetention. A key takes 20 to 40 bytes of memory. Defaults: 1,000,000 and 256 MiB.
	MaxKeys     int
	MaxKeyBytes int64

	// KeepFormat leaves a data directory in the first version of its format, so that an earlier release can open it again, until
	// a sink is defined with typed columns or a table that grows. Default: Open upgrades it. See docs/upgrades.md.
	KeepFormat bool

	// MemTableBytes is the size of the store's write buffer. Slices that are uploaded before it is flushed are never
	// written twice. Up to three of them are in memory while the disk is slower than the rows. Default: 64 MiB. It is
	// less, down to 256 KiB, where it would be more than a 64th of MaxDiskBytes or of the volume.
	MemTableBytes int64

	// The disk below the local level.
	//lint:ignore U1000 package localdisk reaches it through the embedded method
	disk
}

//lint:ignore U1000 package localdisk reaches it through the embedded method
type disk = localdisk.Disk

// Retry is an exponential backoff with jitter. A zero field means its default.
type Retry struct {
	// Initial is the delay after the first failure. Default: 1 s.
	Initial time.Duration
	// Probe bounds the delay while a retry alone may help, so that work resumes soon after the end of an outage, however
	// long it was. One call of each sink is made to see whether the outage is over. When that succeeds all others
	// follow. Default: 10 s, or Max if that is less.
	Probe time.Duration
	// Max bounds the delay after failures that need someone to fix the cause, and the one between attempts to reopen the local
	// level. Default: 5 min.
	Max time.Duration
	// Multiplier is the growth from one delay to the next. Default: 2.
	Multiplier float64
	// Jitter is the random part of a delay, in both directions, as a fraction. Default: 0.2. Negative means none.
	Jitter float64
}

// withDefaults returns a copy without zero fields.
func (o Options) withDefaults() Options {
	o.Tuning = o.Tuning.WithDefaults()
	o.Targets = maps.Clone(o.Targets)
	if o.SinkAttributes == nil {
		o.SinkAttributes = func(id string) []attribute.KeyValue { return []attribute.KeyValue{attribute.String("sink", id)} }
	}
	o.Logger = warnlog.Or(o.Logger)
	return o
}

// WithDefaults returns a copy whose zero fields have their defaults.
func (t Tuning) WithDefaults() Tuning {
	setDefault(&t.MaxPendingBytes, 64<<20)
	setDefault(&t.AdmissionWait, 250*time.Millisecond)
	setDefault(&t.MaxDiskBytes, 16<<30)
	setDefault(&t.MaxSinkBytes, t.MaxDiskBytes/2)
	setDefault(&t.SyncInterval, 25*time.Millisecond)
	setDefault(&t.Uploads, 4)
	setDefault(&t.Imports, 4)
	setDefault(&t.MinImportInterval, trigger.Import().Min.Interval)
	setDefault(&t.AttemptTimeout, 15*time.Minute)
	setDefault(&t.Retention, 7*24*time.Hour)
	setDefault(&t.MemTableBytes, 64<<20)
	setDefault(&t.UnreadableAfter, time.Hour)
	setDefault(&t.DamageRetention, 90*24*time.Hour)
	setDefault(&t.KeyRetention, 24*time.Hour)
	setDefault(&t.MaxKeys, 1_000_000)
	setDefault(&t.MaxKeyBytes, 256<<20)
	setDefault(&t.MaxMeasuredSinks, DefaultMeasuredSinks)
	setDefault(&t.Retry.Initial, time.Second)
	setDefault(&t.Retry.Max, 5*time.Minute)
	setDefault(&t.Retry.Probe, min(10*time.Second, t.Retry.Max))
	setDefault(&t.Retry.Multiplier, 2)
	setDefault(&t.Retry.Jitter, 0.2)
	return t
}

// ImportLimits returns the limits of the conditions of imports with this tuning.
func (t Tuning) ImportLimits() trigger.Limits {
	l := trigger.Import()
	setDefault(&t.MinImportInterval, l.Min.Interval)
	l.Min.Interval = t.MinImportInterval
	return l
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate reports every breach at once. Zero fields count as their defaults.
func (o Options) Validate() error {
	problems := []error{o.Tuning.Validate()}
	if o.Staging == nil {
		problems = append(problems, errors.New("buffer options: Staging is missing"))
	}
	if o.Target == nil {
		problems = append(problems, errors.New("buffer options: Target is missing"))
	}
	if o.OnDamage != nil && o.Changelog == nil {
		problems = append(problems, errors.New("buffer options: OnDamage is set without a Changelog, which would have the rows"))
	}
	return errors.Join(problems...)
}

// Validate reports every breach at once. Zero fields count as their defaults.
func (t Tuning) Validate() error {
	t = t.WithDefaults()
	var problems []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf("buffer options: "+format, args...))
		}
	}
	check(t.MaxPendingBytes >= 1<<20, "MaxPendingBytes is %d, the least is %d", t.MaxPendingBytes, 1<<20)
	check(t.MaxDiskBytes >= 1<<20, "MaxDiskBytes is %d, the least is %d", t.MaxDiskBytes, 1<<20)
	check(t.MaxSinkBytes >= 1<<10, "MaxSinkBytes is %d, the least is %d", t.MaxSinkBytes, 1<<10)
	check(t.MemTableBytes >= 1<<20 && t.MemTableBytes <= 1<<30, "MemTableBytes is %d, allowed is %d to %d",
		t.MemTableBytes, 1<<20, 1<<30)
	check(t.SyncInterval >= time.Millisecond, "SyncInterval is %s, the least is 1ms", t.SyncInterval)
	check(t.GzipLevel >= 0 && t.GzipLevel <= 9, "GzipLevel is %d, allowed is 0 to 9", t.GzipLevel)
	check(t.Uploads >= 1, "Uploads is %d, the least is 1", t.Uploads)
	check(t.Imports >= 1, "Imports is %d, the least is 1", t.Imports)
	check(t.MaxMeasuredSinks >= 1, "MaxMeasuredSinks is %d, the least is 1", t.MaxMeasuredSinks)
	check(t.MinImportInterval >= time.Second && t.MinImportInterval <= trigger.Import().Default.Interval,
		"MinImportInterval is %s, allowed is 1s to %s", t.MinImportInterval, trigger.Import().Default.Interval)
	check(t.AttemptTimeout > 0, "AttemptTimeout is %s, it must be above 0", t.AttemptTimeout)
	check(t.Retention > 0, "Retention is %s, it must be above 0", t.Retention)
	check(t.UnreadableAfter > 0, "UnreadableAfter is %s, it must be above 0", t.UnreadableAfter)
	check(t.DamageRetention > 0, "DamageRetention is %s, it must be above 0", t.DamageRetention)
	check(t.KeyRetention >= time.Second, "KeyRetention is %s, the least is 1s", t.KeyRetention)
	check(t.MaxKeys >= 1000, "MaxKeys is %d, the least is 1000", t.MaxKeys)
	check(t.MaxKeyBytes >= 1<<20, "MaxKeyBytes is %d, the least is %d", t.MaxKeyBytes, 1<<20)
	check(t.Retry.Initial > 0 && t.Retry.Initial <= t.Retry.Max, "Retry.Initial is %s, it must be above 0 and at most Max (%s)",
		t.Retry.Initial, t.Retry.Max)
	check(t.Retry.Probe > 0 && t.Retry.Probe <= t.Retry.Max, "Retry.Probe is %s, it must be above 0 and at most Max (%s)",
		t.Retry.Probe, t.Retry.Max)
	check(t.Retry.Multiplier >= 1, "Retry.Multiplier is %g, the least is 1", t.Retry.Multiplier)
	check(t.Retry.Jitter < 1, "Retry.Jitter is %g, it must be below 1", t.Retry.Jitter)
	return errors.Join(problems...)
}
