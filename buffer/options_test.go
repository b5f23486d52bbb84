package buffer_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/trigger"
)

func TestOptionsReportEveryBreach(t *testing.T) {
	err := buffer.Options{Tuning: buffer.Tuning{MaxPendingBytes: 1, SyncInterval: 1, Uploads: -1, GzipLevel: 10}}.Validate()
	for _, want := range []string{"Staging", "Target", "MaxPendingBytes", "SyncInterval", "Uploads", "GzipLevel"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

// The least interval of imports is the service's, unless the options lower it.
func TestImportIntervalCanBeLowered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := buffertest.NewMemory()
		opts := memoryOptions(t, mem)
		c := buffer.SinkConfig{
			ID: "a", Table: driver.Table{ID: "in.c-test.a", Columns: columns}, Import: trigger.Conditions{Interval: time.Second},
		}
		b := open(t, opts)
		var limit *trigger.LimitError
		if _, err := b.Define(t.Context(), c); !errors.As(err, &limit) || limit.Min != "30s" {
			t.Errorf("with the default: %v", err)
		}
		must(t, b.Close())
		opts.MinImportInterval = time.Second
		b = open(t, opts)
		s, err := b.Define(t.Context(), c)
		must(t, err)
		put(t, b, s, 0, 1)
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		wantIDs(t, mem, "in.c-test.a", 0, 1)
		for _, bad := range []time.Duration{time.Millisecond, time.Hour} {
			opts.MinImportInterval = bad
			if err := opts.Validate(); err == nil || !strings.Contains(err.Error(), "MinImportInterval") {
				t.Errorf("MinImportInterval %s: %v", bad, err)
			}
		}
	})
}
