// Package size computes the disk and the memory that a server needs, from a data directory that it measures, or from a rate. It changes nothing.
package size

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/program/duration"
	"github.com/forebay/forebay/internal/program/flagtext"
	"github.com/forebay/forebay/internal/program/inspect"
)

// Defaults of buffer.Tuning and figures of docs/deploy.md. A data directory does not record the options of its server.
const (
	defaultDisk  = 16 << 30
	leastDisk    = 128 << 20 // TestFormulaHolds: 8 sinks got 55 % of 32 MiB
	retention    = 7 * 24 * time.Hour
	rowPart      = 0.75 // of MaxDiskBytes, as the store needs the rest
	volumePart   = 1.5  // times MaxDiskBytes, the volume of the data directory
	idle         = 86_000_000
	memTable     = 64 << 20
	pending      = 64 << 20
	connection   = 12_000
	key          = 40
	keptRecord   = 48
	parquet      = 260 << 20
	defaultConns = 20_000
	defaultKeys  = 1_000_000
)

// Rows shorter in time than this say nothing about a rate.
const (
	leastSpan     = time.Minute      // of all rows of a sink
	leastFileSpan = 10 * time.Second // of one file
)

// Sink is the measure of one sink.
type Sink struct {
	// ID is source/sink. Dropped sinks get no more rows, so they do not count in the rate.
	ID      string
	Dropped bool `json:",omitempty"`
	// Rows are all rows ever accepted, RowBytes their mean size as CSV, StoredBytes their mean size on disk.
	Rows                  int64
	RowBytes, StoredBytes float64
	// Ratio is RowBytes divided by StoredBytes.
	Ratio float64
	// Rate is the mean of rows a second from the first row to the last one, BusyRate the highest mean of a file that the directory still
	// lists. Zero means unknown, because there are too few rows.
	Rate, BusyRate float64
	First, Last    time.Time
	// WaitingRows and WaitingBytes are not in the table yet.
	WaitingRows, WaitingBytes int64
}

// Load is a load that a server must hold. It is the input of the formula.
type Load struct {
	// BytesPerSecond are stored bytes of all sinks, LargestSink the part of them that the largest sink gets, from 0 to 1.
	BytesPerSecond, LargestSink float64
}

// Disk is the result of the disk's formula.
type Disk struct {
	Load
	// MaxDiskBytes and MaxSinkBytes are the limits of the server.
	MaxDiskBytes, MaxSinkBytes int64
	// Lasts is the outage that the bounds hold without refusing a row, Limit the flag that ends it. Zero means that the load is unknown.
	Lasts time.Duration `json:",omitempty"`
	Limit string        `json:",omitempty"`
	// ForOutage is the MaxDiskBytes that the outage of the flags needs, with the default of MaxSinkBytes, and at least 128 MiB. Zero means
	// that no outage was given.
	ForOutage int64 `json:",omitempty"`
	// Volume is the size of the volume for MaxDiskBytes, or for ForOutage.
	Volume int64
}

// part is one line of the memory.
type part struct {
	Name  string
	Bytes int64
}

// report is everything that is shown.
type report struct {
	Sinks []Sink `json:",omitempty"`
	// InUse are the bytes of the data directory that count towards MaxDiskBytes, QuarantineBytes the bytes of rejected records.
	InUse, QuarantineBytes int64
	Disk                   Disk
	// Busy is the disk at the busiest rates that the directory shows, nil if they are unknown.
	Busy        *Disk `json:",omitempty"`
	Memory      []part
	MemoryTotal int64
	// Unknown lists the costs that the figures leave out.
	Unknown []string
}

// measured are the figures of all levels of a sink.
func measure(s buffer.SinkStats) Sink {
	m := Sink{ID: s.ID, Dropped: s.Dropped, Rows: s.Accepted, WaitingRows: s.Local.Rows + s.Staging.Rows, WaitingBytes: s.WaitingBytes}
	var rows, raw, stored int64
	for _, l := range []buffer.Level{s.Local, s.Staging, s.Target, s.Expired, s.Damaged, s.Discarded, s.Poison} {
		if l.Rows == 0 {
			continue
		}
		rows, raw, stored = rows+l.Rows, raw+l.RawBytes, stored+l.StoredBytes
		if !l.FirstAt.IsZero() && (m.First.IsZero() || l.FirstAt.Before(m.First)) {
			m.First = l.FirstAt
		}
		if l.LastAt.After(m.Last) {
			m.Last = l.LastAt
		}
	}
	if rows > 0 {
		m.RowBytes, m.StoredBytes = float64(raw)/float64(rows), float64(stored)/float64(rows)
	}
	if stored > 0 {
		m.Ratio = float64(raw) / float64(stored)
	}
	m.Rate = rate(rows, m.First, m.Last, leastSpan)
	for _, f := range s.Files {
		m.BusyRate = max(m.BusyRate, rate(f.Level.Rows, f.Level.FirstAt, f.Level.LastAt, leastFileSpan))
	}
	return m
}

// rate returns rows a second, or 0 if the rows lie too close together to tell.
func rate(rows int64, first, last time.Time, least time.Duration) float64 {
	if span := last.Sub(first); span >= least {
		return float64(rows) / span.Seconds()
	}
	return 0
}

// loadOf returns the load of the sinks at a rate each. Sinks without a rate count as silent.
func loadOf(sinks []Sink, rateOf func(Sink) float64) (l Load) {
	largest := 0.0
	for _, s := range sinks {
		if !s.Dropped {
			bytes := rateOf(s) * s.StoredBytes
			l.BytesPerSecond += bytes
			largest = max(largest, bytes)
		}
	}
	if l.BytesPerSecond > 0 {
		l.LargestSink = largest / l.BytesPerSecond
	}
	return l
}

// Compute is the formula of the disk. outage may be 0, maxSink 0 means half of maxDisk.
func Compute(l Load, outage time.Duration, maxDisk, maxSink int64) Disk {
	d := Disk{Load: l, MaxDiskBytes: maxDisk, MaxSinkBytes: cmp.Or(maxSink, maxDisk/2)}
	d.Volume = int64(volumePart * float64(maxDisk))
	if l.BytesPerSecond <= 0 {
		return d
	}
	all, one := rowPart*float64(maxDisk)/l.BytesPerSecond, float64(d.MaxSinkBytes)/(l.BytesPerSecond*l.LargestSink)
	seconds := all
	d.Limit = "-max-disk-bytes"
	if one < all {
		seconds, d.Limit = one, "-max-sink-bytes"
	}
	if seconds > retention.Seconds() {
		seconds, d.Limit = retention.Seconds(), "buffer.Tuning.Retention, which is 7 days by default"
	}
	d.Lasts = time.Duration(seconds * float64(time.Second))
	if outage > 0 {
		d.ForOutage = max(leastDisk, int64(math.Ceil(l.BytesPerSecond*outage.Seconds()*max(1/rowPart, 2*l.LargestSink))))
		d.Volume = int64(volumePart * float64(d.ForOutage))
	}
	return d
}

// memory is the formula of the memory. A negative number of keys or of records is unknown.
func memory(maxDisk int64, connections int, keys, records int64, target string) (parts []part, total int64) {
	parts = []part{
		{"the program and a SQLite target, idle", idle},
		{"write buffers of the store", 3 * min(memTable, max(256<<10, maxDisk/64))},
		{"rows in progress", pending},
		{fmt.Sprintf("%d open connections", connections), connection * int64(connections)},
		{fmt.Sprintf("%d keys of requests", keys), key * keys},
		{fmt.Sprintf("%d records in quarantine", records), keptRecord * records},
	}
	if strings.HasPrefix(target, "parquet:") {
		parts = append(parts, part{"an import into Parquet", parquet})
	}
	for _, p := range parts {
		total += p.Bytes
	}
	return parts, total
}

// options are the flags.
type options struct {
	rate, rowBytes, largest float64
	outage                  time.Duration
	maxDisk, maxSink        int64
	connections             int
	target                  string
	json                    bool
}

// Run is the program. Its flags explain themselves with -h, which returns [flag.ErrHelp].
func Run(_ context.Context, args []string, out, usage io.Writer) error {
	var o options
	flags := flag.NewFlagSet("size", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.Float64Var(&o.rate, "rate", 0, "rows per second of all sinks (default measured in DIR; e.g. 1000)")
	flags.Float64Var(&o.rowBytes, "row-bytes", 0, "bytes of a row on disk, compressed (default measured in DIR; e.g. 300)")
	flags.Float64Var(&o.largest, "largest-sink", 0, "part of the bytes that the largest sink gets, above 0 and at most 1 (default measured in DIR, or 1 without DIR; e.g. 0.6)")
	duration.Var(flags, &o.outage, "outage", 0, "longest outage of the tables that must refuse no event, a duration (default none; e.g. 8h)")
	flags.Int64Var(&o.maxDisk, "max-disk-bytes", defaultDisk, "the flag -max-disk-bytes of the server (e.g. 107374182400)")
	flags.Int64Var(&o.maxSink, "max-sink-bytes", 0, "the flag -max-sink-bytes of the server (default half of -max-disk-bytes; e.g. 53687091200)")
	flags.IntVar(&o.connections, "connections", defaultConns, "open connections for events (e.g. 500)")
	flags.StringVar(&o.target, "target", "", "the flag -target of the server, because some targets need more memory (default none; e.g. parquet:lake)")
	flags.BoolVar(&o.json, "json", false, "write JSON")
	if err := flagtext.Parse(flags, args); err != nil {
		return err
	}
	if err := o.check(flags.Args()); err != nil {
		return err
	}
	r, err := o.report(flags.Arg(0))
	if err != nil {
		return err
	}
	if o.json {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	return r.print(out, flags.Arg(0), o.outage)
}

func (o *options) check(args []string) error {
	switch {
	case len(args) > 1:
		return fmt.Errorf("unexpected argument %q: name one data directory, after the flags", args[1])
	case len(args) == 0 && (o.rate == 0 || o.rowBytes == 0):
		return errors.New("name a data directory, after the flags, or set -rate and -row-bytes; -h shows the flags")
	}
	for name, value := range map[string]float64{
		"rate": o.rate, "row-bytes": o.rowBytes, "largest-sink": o.largest, "outage": o.outage.Seconds(),
		"max-sink-bytes": float64(o.maxSink), "connections": float64(o.connections),
	} {
		if !(value >= 0) || math.IsInf(value, 0) {
			return fmt.Errorf("-%s must be a number of 0 or more", name)
		}
	}
	if o.largest > 1 {
		return errors.New("-largest-sink is a part, such as 0.6: it must be at most 1")
	}
	if o.maxDisk < 1<<20 {
		return fmt.Errorf("-max-disk-bytes is %d, must be %d or more", o.maxDisk, 1<<20)
	}
	return nil
}

// report measures a data directory, unless dir is empty, and computes.
func (o *options) report(dir string) (*report, error) {
	r := &report{}
	keys, records := int64(defaultKeys), int64(0)
	if dir != "" {
		in, err := forebay.Inspect(dir, buffer.InspectOptions{})
		if err != nil {
			return nil, inspect.Explain(err, dir, "size")
		}
		st := in.Stats()
		if err := in.Close(); err != nil {
			return nil, err
		}
		keys = st.Keys
		for _, s := range st.Sinks {
			r.Sinks = append(r.Sinks, measure(s))
			r.InUse += s.Staging.StoredBytes
			r.QuarantineBytes += s.Quarantine.Bytes
			records += s.Quarantine.Records
		}
		r.InUse += max(st.LocalBytes, st.StoreBytes)
	}
	load, busy := o.loads(r.Sinks)
	r.Disk = Compute(load, o.outage, o.maxDisk, o.maxSink)
	if busy.BytesPerSecond > load.BytesPerSecond {
		d := Compute(busy, o.outage, o.maxDisk, o.maxSink)
		r.Busy = &d
	}
	disk := max(o.maxDisk, r.Disk.ForOutage)
	r.Memory, r.MemoryTotal = memory(disk, o.connections, keys, records, o.target)
	r.Unknown = o.unknown(r, dir != "")
	return r, nil
}

// loads returns the mean load and the busiest one. Flags override measured values.
func (o *options) loads(sinks []Sink) (load, busy Load) {
	load = loadOf(sinks, func(s Sink) float64 { return s.Rate })
	busy = loadOf(sinks, func(s Sink) float64 { return max(s.Rate, s.BusyRate) })
	rows, bytes, perSecond := 0.0, 0.0, 0.0
	for _, s := range sinks {
		if !s.Dropped {
			rows, bytes, perSecond = rows+float64(s.Rows), bytes+float64(s.Rows)*s.StoredBytes, perSecond+s.Rate
		}
	}
	if o.rate > 0 || o.rowBytes > 0 {
		rowBytes := o.rowBytes
		if rowBytes == 0 && rows > 0 {
			rowBytes = bytes / rows
		}
		load.BytesPerSecond, busy = cmp.Or(o.rate, perSecond)*rowBytes, Load{}
	}
	if len(sinks) == 0 || load.LargestSink == 0 {
		load.LargestSink = largestOf(sinks, bytes)
	}
	if o.largest > 0 {
		load.LargestSink, busy.LargestSink = o.largest, o.largest
	}
	return load, busy
}

// largestOf returns the part of all bytes ever that the largest sink got; 1 if there are none.
func largestOf(sinks []Sink, bytes float64) float64 {
	largest := 0.0
	for _, s := range sinks {
		if !s.Dropped {
			largest = max(largest, float64(s.Rows)*s.StoredBytes)
		}
	}
	if bytes == 0 {
		return 1
	}
	return largest / bytes
}

// unknown lists the costs that the figures leave out.
func (o *options) unknown(r *report, measured bool) (list []string) {
	if measured {
		list = append(list, "The options of the server are not in the directory. Pass its -max-disk-bytes, -max-sink-bytes and -target.")
		list = append(list, "Rows that are committed in chunks of less than 4 KiB are not compressed on disk. At a higher rate a row takes fewer bytes.")
		if o.rate == 0 {
			var silent []string
			for _, s := range r.Sinks {
				if s.Rate == 0 && !s.Dropped {
					silent = append(silent, s.ID)
				}
			}
			if len(silent) > 0 {
				list = append(list, fmt.Sprintf("The rate of %s is unknown, because its rows arrived within a minute. Pass -rate.", strings.Join(silent, ", ")))
			}
			list = append(list, "A peak that was shorter than a file is averaged, and files that ended long ago are forgotten. Pass -rate for the peak that you expect.")
		}
	} else {
		list = append(list, "The bytes of a row depend on your rows. Measure them: run forebay size on a data directory with some thousand of them.")
	}
	list = append(list, "Tables and an archive on the same volume, and the store of a cluster node, are not in the size of the volume.")
	if o.maxDisk < leastDisk {
		list = append(list, "Below 128 MiB the files of the store leave less than three quarters of -max-disk-bytes for rows, so an outage is held for less.")
	}
	if strings.HasPrefix(o.target, "duckdb:") {
		list = append(list, "DuckDB takes up to 80 % of the memory of the machine, unless you set memoryLimit. It is not in the total.")
	}
	return append(list, "A staging in a bucket takes up to 32 MiB of memory more for each of 4 uploads.")
}

func (r *report) print(out io.Writer, dir string, outage time.Duration) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if len(r.Sinks) > 0 {
		fmt.Fprint(w, "SOURCE/SINK\tROWS EVER\tBYTES OF A ROW\tON DISK\tRATIO\tROWS/S\tBUSIEST FILE\tWAITING ROWS\tWAITING BYTES\n")
	} else if dir != "" {
		fmt.Fprintf(w, "%s has no sinks yet.\n", dir)
	}
	for _, s := range r.Sinks {
		id := s.ID
		if s.Dropped {
			id += " (ended)"
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%d\t%d\n", id, s.Rows, number(s.RowBytes, 0), number(s.StoredBytes, 0), number(s.Ratio, 1),
			number(s.Rate, 1), number(s.BusyRate, 1), s.WaitingRows, s.WaitingBytes)
	}
	fmt.Fprint(w, "\nDISK\tBYTES\n")
	if dir != "" {
		fmt.Fprintf(w, "in use, of -max-disk-bytes\t%d\t%s\n", r.InUse, binary(r.InUse))
		fmt.Fprintf(w, "of it rejected records\t%d\t%s\n", r.QuarantineBytes, binary(r.QuarantineBytes))
	}
	fmt.Fprintf(w, "-max-disk-bytes\t%d\t%s\n", r.Disk.MaxDiskBytes, binary(r.Disk.MaxDiskBytes))
	rows := int64(rowPart * float64(r.Disk.MaxDiskBytes))
	fmt.Fprintf(w, "rows take at most\t%d\t%s\n", rows, binary(rows))
	fmt.Fprintf(w, "one sink takes at most\t%d\t%s\n", r.Disk.MaxSinkBytes, binary(r.Disk.MaxSinkBytes))
	for _, d := range []struct {
		at   string
		disk *Disk
	}{{"at this rate", &r.Disk}, {"at the rate of the busiest files", r.Busy}} {
		if d.disk != nil {
			d.disk.print(w, d.at, outage)
		}
	}
	fmt.Fprintf(w, "volume of the data directory\t%d\t%s\n", r.volume(), binary(r.volume()))
	fmt.Fprint(w, "\nMEMORY\tBYTES\n")
	for _, p := range append(slices.Clone(r.Memory), part{"total", r.MemoryTotal}) {
		fmt.Fprintf(w, "%s\t%d\t%s\n", p.Name, p.Bytes, binary(p.Bytes))
	}
	fmt.Fprint(w, "\nNOT KNOWN\n")
	for _, text := range r.Unknown {
		fmt.Fprintf(w, "- %s\n", text)
	}
	return w.Flush()
}

// volume is the size of the volume for the highest load.
func (r *report) volume() int64 {
	if r.Busy != nil {
		return max(r.Disk.Volume, r.Busy.Volume)
	}
	return r.Disk.Volume
}

func (d *Disk) print(w io.Writer, at string, outage time.Duration) {
	if d.Lasts == 0 {
		fmt.Fprintf(w, "an outage is held, %s\tunknown\tthe rate is unknown: pass -rate\n", at)
		return
	}
	fmt.Fprintf(w, "stored per second, %s\t%.0f\tof it %.0f %% by the largest sink\n", at, d.BytesPerSecond, 100*d.LargestSink)
	fmt.Fprintf(w, "an outage is held, %s\t%s\tthe limit is %s\n", at, hours(d.Lasts), d.Limit)
	if d.ForOutage > 0 {
		fmt.Fprintf(w, "-max-disk-bytes for %s, %s\t%d\t%s\n", hours(outage), at, d.ForOutage, binary(d.ForOutage))
	}
	if outage > retention {
		fmt.Fprintf(w, "rows expire before\t%s\tin a server after 7 days; an engine has buffer.Tuning.Retention\n", hours(outage))
	}
}

// number writes a measure, or a dash if it is unknown.
func number(v float64, digits int) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf("%.*f", digits, v)
}

// hours writes a duration to the minute, or to the second if it is shorter than an hour.
func hours(d time.Duration) string {
	if d < time.Hour {
		return d.Round(time.Second).String()
	}
	d = d.Round(time.Minute)
	return fmt.Sprintf("%d h %02d min", d/time.Hour, d%time.Hour/time.Minute)
}

// binary writes bytes with a unit.
func binary(n int64) string {
	value, unit := float64(n), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if value < 1024 {
			break
		}
		value, unit = value/1024, next
	}
	if unit == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}
