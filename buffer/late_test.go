package buffer_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/synctest"
)

// lateTarget is a target whose imports do not return, whatever their context says, until they are released. Then they
// store the rows after all.
type lateTarget struct {
	*buffertest.Memory
	release chan struct{}
	calls   atomic.Int64
}

func (l *lateTarget) Import(ctx context.Context, f *driver.File) error {
	l.calls.Add(1)
	<-l.release
	return l.Memory.Import(context.WithoutCancel(ctx), f)
}

// A file whose import was left alone and still runs is not given up, because its rows may appear in the table at any time. When
// the call ends well, the file is imported.
func TestLateImportIsNoRowGivenUp(t *testing.T) {
	for _, how := range []string{"discard", "expiry"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				target := &lateTarget{Memory: buffertest.NewMemory(), release: make(chan struct{})}
				opts := memoryOptions(t, target.Memory)
				opts.Target, opts.AttemptTimeout, opts.Retention = target, time.Minute, time.Hour
				b := open(t, opts)
				put(t, b, define(t, b, "a"), 0, 3)
				must(t, b.Sink("a").CloseFile(t.Context(), 1))
				switch how {
				case "discard":
					time.Sleep(2 * time.Minute)
					synctest.Wait()
					st, _ := b.Sink("a").Stats()
					if err := b.Sink("a").Discard(t.Context(), st.Files[0].ID); !errors.Is(err, buffer.ErrImportRuns) {
						t.Errorf("discard: %v, want ErrImportRuns", err)
					}
				case "expiry":
					time.Sleep(5 * time.Hour)
					synctest.Wait()
					if target.calls.Load() > 5*60 {
						t.Errorf("got %d attempts in 5 hours, want at most 5*60", target.calls.Load())
					}
				}
				if st, _ := b.Sink("a").Stats(); st.Discarded.Rows+st.Expired.Rows != 0 {
					t.Errorf("given up while an import runs: %s", state(b, "a"))
				}
				close(target.release)
				synctest.Wait()
				st, _ := b.Sink("a").Stats()
				if st.Target.Rows != 3 || st.Accepted != 3 {
					t.Errorf("got %s, want 3 rows in the table", state(b, "a"))
				}
				wantIDs(t, target.Memory, "in.c-test.a", 0, 3)
				verify(t, b)
			})
		})
	}
}

// slowImport is a target whose first import does not return, whatever its context says, until it is released. Then it
// stores the rows after all. Every further one fails.
type slowImport struct {
	*buffertest.Memory
	release chan struct{}
	calls   atomic.Int64
}

func (s *slowImport) Import(ctx context.Context, f *driver.File) error {
	if s.calls.Add(1) > 1 {
		return errors.New("down")
	}
	<-s.release
	return s.Memory.Import(context.WithoutCancel(ctx), f)
}

// An import that was abandoned ends well while the local level is out of reach, or after it has been opened again. Its
// outcome is kept until it can be written, so that the file is imported, once, and its rows cannot be discarded.
func TestLateImportOutlivesAReopening(t *testing.T) {
	for name, tt := range map[string]struct{ lateBefore, endsBefore bool }{
		"ends during the failure":                            {lateBefore: true, endsBefore: true},
		"ends after the reopening":                           {lateBefore: true},
		"is left alone by the failure, ends during it":       {endsBefore: true},
		"is left alone by the failure, ends when it is over": {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var broken atomic.Bool
				target := &slowImport{Memory: buffertest.NewMemory(), release: make(chan struct{})}
				opts := memoryOptions(t, target.Memory)
				opts = localdisk.On(opts, disktest.Wrap(disktest.New(t), errorfs.InjectorFunc(func(op errorfs.Op) error {
					if broken.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
						return syscall.ENOSPC
					}
					return nil
				})))
				var log strings.Builder
				opts.Logger = textLogger(&log)
				opts.Target, opts.AttemptTimeout, opts.Retention = target, 10*time.Minute, time.Hour
				b := open(t, opts)
				s := define(t, b, "a")
				put(t, b, s, 0, 3)
				must(t, b.Sink("a").CloseFile(t.Context(), 1))
				synctest.Wait()
				if tt.lateBefore {
					time.Sleep(20 * time.Minute)
				}
				broken.Store(true)
				ticket, err := b.Append(t.Context(), time.Now(), buffer.Rows{Sink: s, Data: row(3, "v"), Count: 1})
				if err == nil {
					err = ticket.Wait(t.Context())
				}
				var failed *buffer.FailedError
				if !errors.As(err, &failed) {
					t.Fatalf("a row on a full disk: %v, want a FailedError", err)
				}
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				if tt.endsBefore {
					close(target.release)
					time.Sleep(time.Minute)
				}
				if err := b.Ready(); !errors.As(err, &failed) {
					t.Fatalf("the local level has not failed: %v", err)
				}
				broken.Store(false)
				time.Sleep(10 * time.Minute)
				if !tt.endsBefore {
					st, _ := b.Sink("a").Stats()
					if err := b.Sink("a").Discard(t.Context(), st.Files[0].ID); !errors.Is(err, buffer.ErrImportRuns) {
						t.Errorf("discard: %v, want ErrImportRuns", err)
					}
					close(target.release)
				}
				synctest.Wait()
				if n := strings.Count(log.String(), "file imported late"); n != 1 {
					t.Errorf("the late import is taken up %d times:\n%s", n, log.String())
				}
				st, _ := b.Sink("a").Stats()
				if st.Target.Rows != 3 || st.Accepted != 3 || st.Files[0].State != buffer.FileImported {
					t.Errorf("got %s, want 3 rows in the table", state(b, "a"))
				}
				if err := b.Sink("a").Discard(t.Context(), st.Files[0].ID); !errors.Is(err, buffer.ErrUnknownFile) {
					t.Errorf("the imported file can be given up: %v", err)
				}
				time.Sleep(2 * time.Hour)
				wantIDs(t, target.Memory, "in.c-test.a", 0, 3)
				verify(t, b)
			})
		})
	}
}

// lateDelete is a staging store whose first Delete does not return until it is released.
type lateDelete struct {
	*buffertest.Memory
	release, put chan struct{}
	deletes      atomic.Int64
}

func (l *lateDelete) Delete(ctx context.Context, objs ...driver.Object) error {
	if l.deletes.Add(1) == 1 {
		<-l.release
		return nil
	}
	return l.Memory.Delete(ctx, objs...)
}

func (l *lateDelete) Put(ctx context.Context, obj driver.Object, src driver.Content) error {
	if l.deletes.Load() > 1 { // the damage was set aside
		<-l.put
	}
	return l.Memory.Put(ctx, obj, src)
}

// Setting damage aside was left alone, a later attempt has done it, and the first ends after all while the rest is being
// uploaded. It must not set aside once more, or the object would have another id than the slice.
func TestLateSettingAsideIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		mem, disk := downMemory(&down), disktest.New(t)
		opts := memoryOptions(t, mem)
		tenChunks(t, disk, opts, &down)
		editChunks(t, disk, func(n int, v []byte) []byte {
			if n == 4 {
				v[100] ^= 1
			}
			return v
		})
		staging := &lateDelete{Memory: mem, release: make(chan struct{}), put: make(chan struct{})}
		opts = localdisk.On(opts, disk)
		opts.Staging, opts.AttemptTimeout = staging, time.Minute
		b := open(t, opts)
		time.Sleep(80 * time.Second)
		synctest.Wait()
		if n := staging.deletes.Load(); n != 2 {
			t.Fatalf("got %d deletes, want the one that hangs and another", n)
		}
		list, err := b.Damaged(t.Context())
		if err != nil || len(list) != 1 {
			t.Fatalf("damage %+v: %v", list, err)
		}
		close(staging.release)
		synctest.Wait()
		close(staging.put)
		must(t, b.Sink("a").Flush(t.Context()))
		if list, err = b.Damaged(t.Context()); err != nil || len(list) != 1 {
			t.Errorf("damage %+v: %v", list, err)
		}
		if st, _ := b.Sink("a").Stats(); st.Target.Rows != 90 || st.Damaged.Rows != 10 {
			t.Errorf("got %s, damaged %d, want 90 rows in the table, 10 damaged", state(b, "a"), st.Damaged.Rows)
		}
		puts := 0
		for _, c := range mem.Calls() {
			if c.Op == buffertest.OpPut && c.Err == nil {
				puts++
			}
		}
		if puts != 1 {
			t.Errorf("the rest was stored %d times, want once", puts)
		}
		verify(t, b)
	})
}
