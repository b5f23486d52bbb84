package buffer_test

import (
	"context"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/synctest"
)

// putSlices puts rows into separate slices.
func putSlices(t *testing.T, b *buffer.Buffer, s *buffer.DefinedSink, n int) {
	t.Helper()
	for i := range n {
		put(t, b, s, i, i+1)
	}
}

func arrived(b *buffer.Buffer) (rows int64) {
	for _, st := range b.Stats().Sinks {
		rows += st.Target.Rows
	}
	return rows
}

// After an outage of hours everything is in its table within seconds, and meanwhile each sink has made one call every few
// seconds, however many slices wait.
func TestOutageEndsForAllAtOnce(t *testing.T) {
	withOutage(t, slog.LevelWarn, func(t *testing.T, b *buffer.Buffer, o *outage, _ *lines) {
		first := o.calls.Load()
		time.Sleep(3 * time.Hour)
		if n := o.calls.Load() - first; n < 3*1000 || n > 3*1500 {
			t.Errorf("got %d calls in 3 hours, want about one in 10 s for each of 3 sinks", n)
		}
		o.away.Store(false)
		time.Sleep(13 * time.Second) // the longest delay with its random part, and the imports
		synctest.Wait()
		if n := arrived(b); n != 300 {
			t.Errorf("got %d rows in the tables 13 s after the outage, want 300", n)
		}
		verify(t, b)
	})
}

// A process that starts during an outage does not make a call for each slice that waits either.
func TestOutageCostsFewCallsAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &outage{Memory: buffertest.NewMemory(), err: errors.New("connection refused")}
		o.away.Store(true)
		opts := memoryOptions(t, o.Memory)
		opts.Staging, opts.Target = o, o
		b := openAt(t, "data", opts)
		putSlices(t, b, define(t, b, "a", func(c *buffer.SinkConfig) { c.Upload.Count = 1 }), 100)
		synctest.Wait()
		closeBuffer(t, b)
		before := o.calls.Load()
		b = openAt(t, "data", opts)
		time.Sleep(time.Minute)
		if n := o.calls.Load() - before; n < 3 || n > 25 {
			t.Errorf("got %d calls in the first minute, want about one in 10 s", n)
		}
		o.away.Store(false)
		must(t, b.Sink("a").Flush(t.Context()))
		if n := arrived(b); n != 100 {
			t.Errorf("got %d rows in the table, want 100", n)
		}
		closeBuffer(t, b)
	})
}

// An outage has few lines in the log, at a rising pace and with counts, and one for its end.
func TestOutageHasFewLogLines(t *testing.T) {
	withOutage(t, slog.LevelDebug, func(t *testing.T, b *buffer.Buffer, o *outage, log *lines) {
		if n := log.count("upload failed"); n != 3 {
			t.Errorf("got %d lines for the first 300 failures, want one a sink", n)
		}
		time.Sleep(time.Hour)
		if n := log.count("upload failed"); n < 3*7 || n > 3*12 {
			t.Errorf("got %d lines in an hour, want 21 to 36", n)
		}
		if text := log.text.String(); !strings.Contains(text, "waiting=100") || !strings.Contains(text, "failures=") {
			t.Errorf("the lines do not say what they stand for:\n%.2000s", text)
		}
		o.away.Store(false)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if n := log.count("upload works again"); n != 3 {
			t.Errorf("%d lines of the end, want one a sink", n)
		}
		if n := log.count("file imported"); n != 3 {
			t.Errorf("got %d lines of imports, want one a file", n)
		}
	})
}

// withoutBucket returns a staging and a target that are away, the options of a buffer with them, and its log.
func withoutBucket(t *testing.T) (*outage, buffer.Options, *lines) {
	o, log := &outage{Memory: buffertest.NewMemory(), err: errors.New("no such bucket")}, &lines{}
	o.away.Store(true)
	opts := memoryOptions(t, o.Memory)
	opts.Staging, opts.Target, opts.Logger = o, o, slog.New(slog.NewTextHandler(log, nil))
	return o, opts, log
}

// A line of a failure has the cause first, then the time of the first failure, the number of waiting files or slices, the time of the next attempt, and the
// next step. The time of the first failure survives a restart.
func TestOrderOfAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, opts, log := withoutBucket(t)
		b := openAt(t, "data", opts)
		s := define(t, b, "a", func(c *buffer.SinkConfig) { c.Upload.Count, c.Import.Interval = 1, time.Hour })
		began := time.Now()
		put(t, b, s, 0, 1)
		time.Sleep(time.Hour)
		synctest.Wait()
		closeBuffer(t, b)
		b = openAt(t, "data", opts)
		time.Sleep(time.Minute)
		o.away.Store(false)
		must(t, b.Sink("a").Flush(t.Context()))
		closeBuffer(t, b)
		failures := regexp.MustCompile(`(?m)^.* msg="upload failed" (.*)$`).FindAllStringSubmatch(log.String(), -1)
		if len(failures) < 4 {
			t.Fatalf("got %d lines, want at least 4:\n%s", len(failures), log)
		}
		order := regexp.MustCompile(`^sink=a id=\S+ cause="put \S+: no such bucket" permanent=false since=(\S+) attempt=[0-9]+ failures=[0-9]+ waiting=1 retry_after=\S+ next="none; the rows wait and are retried"$`)
		all := regexp.MustCompile(`msg="upload works again" sink=a (since)=(\S+)`).FindAllStringSubmatch(log.String(), -1)
		if len(all) != 1 {
			t.Fatalf("got %d ends of the failure, want 1:\n%s", len(all), log)
		}
		all[0] = all[0][1:]
		for _, line := range failures {
			m := order.FindStringSubmatch(line[1])
			if m == nil {
				t.Fatalf("the line is %s", line[1])
			}
			all = append(all, m)
		}
		for _, m := range all {
			if since, err := time.Parse(time.RFC3339, m[1]); err != nil || since.Sub(began) > time.Second || since.Before(began.Truncate(time.Second)) {
				t.Errorf("the failure is said to last since %s, want %s (%v)", m[1], began, err)
			}
		}
	})
}

// A file whose conditions are far away shows that its slices cannot be uploaded.
func TestWritingFileShowsItsFailedUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, opts, log := withoutBucket(t)
		b := open(t, opts)
		s := define(t, b, "a", func(c *buffer.SinkConfig) { c.Upload.Count, c.Import.Interval = 1, time.Hour })
		put(t, b, s, 0, 1)
		time.Sleep(time.Minute)
		synctest.Wait()
		f := b.Stats().Sinks[0].Files[0]
		if f.State != buffer.FileState("writing") || f.Attempt < 2 || !strings.Contains(f.RetryReason, "no such bucket") || !f.RetryAfter.After(time.Now()) {
			t.Errorf("the file is shown as %+v", f)
		}
		if since := time.Since(f.FirstFailed); f.Permanent || since < 50*time.Second || since > time.Minute || f.ImportAt.Sub(f.OpenedAt) != time.Hour || !f.UploadAt.IsZero() {
			t.Errorf("its times are shown as %+v", f)
		}
		o.away.Store(false)
		must(t, b.Sink("a").Flush(t.Context()))
		if text := log.text.String(); !strings.Contains(text, `msg="upload works again"`) || !strings.Contains(text, "waiting=0") {
			t.Errorf("the end of the outage is not logged with what still waits:\n%s", text)
		}
	})
}

// A sink whose calls fail is not retried sooner because calls of other sinks succeed, and does not hold them up.
func TestOneBrokenSinkKeepsItsPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &outage{Memory: buffertest.NewMemory(), err: errors.New("no such bucket"), only: "broken"}
		o.away.Store(true)
		opts := memoryOptions(t, o.Memory)
		opts.Staging, opts.Target = o, o
		b := open(t, opts)
		broken, sound := define(t, b, "broken"), define(t, b, "sound")
		put(t, b, broken, 0, 5)
		for i := range 3600 {
			put(t, b, sound, i, i+1)
			if i%10 == 0 {
				must(t, b.Sink("sound").Flush(t.Context()))
			}
			time.Sleep(time.Second)
		}
		if n := o.calls.Load(); n < 300 || n > 500 {
			t.Errorf("got %d calls for the broken sink in an hour, want 300 to 500", n)
		}
	})
}

// A table that was fixed is noticed within seconds in the first minute, and within Retry.Max later on.
func TestMendedTableIsNoticed(t *testing.T) {
	for broken, within := range map[time.Duration]time.Duration{5 * time.Second: 10 * time.Second, 24 * time.Hour: 6 * time.Minute} {
		t.Run(broken.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				drv := &twist{Memory: buffertest.NewMemory()}
				var mended atomic.Bool
				var calls atomic.Int64
				drv.importer = func(context.Context, *driver.File) error {
					if mended.Load() {
						return nil
					}
					calls.Add(1)
					return &driver.SchemaError{Table: "in.c-test.a", Want: columns, Got: columns[:1]}
				}
				opts := memoryOptions(t, drv.Memory)
				opts.Target = drv
				b := open(t, opts)
				s := define(t, b, "a")
				for i := range 5 { // five files
					put(t, b, s, i, i+1)
					must(t, b.Sink("a").CloseFile(t.Context(), 1))
				}
				time.Sleep(broken)
				if n := calls.Load(); n > 5+10+int64(broken/(4*time.Minute)) {
					t.Errorf("got %d calls in %s, want at most %d", n, broken, 15+broken/(4*time.Minute))
				}
				if st, _ := b.Sink("a").Stats(); st.Files[0].RetryAfter.Before(time.Now()) {
					t.Errorf("the next attempt was at %s, it is %s", st.Files[0].RetryAfter, time.Now())
				}
				mended.Store(true)
				time.Sleep(within)
				synctest.Wait()
				if n := arrived(b); n != 5 {
					t.Errorf("got %d rows in the table, want 5", n)
				}
			})
		})
	}
}

// A slice that fails for its own reasons does not hold up the slices after it.
func TestOneBrokenSliceDoesNotHoldUpTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drv := &twist{Memory: buffertest.NewMemory()}
		var outage atomic.Bool
		var first atomic.Pointer[string]
		outage.Store(true)
		drv.put = func(ctx context.Context, obj driver.Object, src driver.Content) error {
			first.CompareAndSwap(nil, &obj.ID)
			if outage.Load() || obj.ID == *first.Load() {
				return errors.New("refused")
			}
			return drv.Memory.Put(ctx, obj, src)
		}
		opts := memoryOptions(t, drv.Memory)
		opts.Staging, opts.Target = drv, drv
		b := open(t, opts)
		s := define(t, b, "a", func(c *buffer.SinkConfig) { c.Upload.Count = 1 })
		putSlices(t, b, s, 20)
		time.Sleep(time.Hour)
		outage.Store(false)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if st, _ := b.Sink("a").Stats(); st.Staging.Rows != 19 || st.Local.Rows != 1 {
			t.Errorf("got %s, want all but one slice in staging", state(b, "a"))
		}
	})
}
