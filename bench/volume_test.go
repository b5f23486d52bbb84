package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func TestPaceOfTheNetworkVolume(t *testing.T) {
	v, err := chooseVolume("network")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		over, grown int64
		want        time.Duration
	}{
		{0, 0, 157 * time.Microsecond},
		{4 << 10, 0, 157 * time.Microsecond},
		{34 << 10, 0, 169500 * time.Nanosecond}, // half-way between 4 and 64 KB
		{64 << 10, 0, 182 * time.Microsecond},
		{0, 64 << 10, 468 * time.Microsecond},
		{1 << 20, 0, 617 * time.Microsecond},
		{0, 1 << 20, 2689 * time.Microsecond},
		{1792 << 10, 0, 818 * time.Microsecond}, // as much more as from 256 KB to 1 MB
		{60 << 10, 4 << 10, 331 * time.Microsecond},
	} {
		if got := v.pace(tt.over, tt.grown); got != tt.want {
			t.Errorf("a sync of %d bytes over old ones and %d new ones takes %v, want %v", tt.over, tt.grown, got, tt.want)
		}
	}
}

// A file is charged for the bytes written since the last sync, by whether their blocks existed before.
func TestVolumeCountsWhatASyncCovers(t *testing.T) {
	const kb = 1 << 10
	v := &volume{over: []cost{{1, 0}, {2, 0}}, grow: []cost{{1, 0}, {2, 0}}}
	disk := v.fs()
	dir := t.TempDir()
	first, second := filepath.Join(dir, "1.log"), filepath.Join(dir, "2.log")
	f, err := disk.Create(first, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	counts := func(over, grown int64) {
		t.Helper()
		file := f.(*watchedFile).watcher.(*volumeFile)
		if o, g := file.over.Load(), file.grown.Load(); o != over || g != grown {
			t.Errorf("got %d bytes over old ones and %d new ones, want %d and %d", o, g, over, grown)
		}
		if err := f.SyncData(); err != nil {
			t.Fatal(err)
		}
		if o, g := file.over.Load(), file.grown.Load(); o != 0 || g != 0 {
			t.Errorf("after a sync %d and %d bytes are left to sync", o, g)
		}
	}
	write := func(n int) {
		t.Helper()
		if _, err := f.Write(make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}
	write(4 * kb)
	write(4 * kb)
	counts(0, 8*kb)
	if _, err := f.WriteAt(make([]byte, 16*kb), 8*kb); err != nil { // written ahead
		t.Fatal(err)
	}
	counts(0, 16*kb)
	write(8 * kb)
	counts(8*kb, 0)
	write(12 * kb)
	counts(8*kb, 4*kb)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if f, err = disk.ReuseForWrite(first, second, vfs.WriteCategoryUnspecified); err != nil {
		t.Fatal(err)
	}
	write(20 * kb)
	counts(20*kb, 0)
	write(20 * kb)
	counts(8*kb, 12*kb)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// What is measured on a volume takes at least its time: limits, baselines and engines alike.
func TestEverySyncGoesToTheVolume(t *testing.T) {
	const pace = 20 * time.Millisecond // no disk of a developer is as slow
	w := workloads()[0]
	for name, run := range map[string]func(e *env) (*sample, error){
		"seqwrite":       func(e *env) (*sample, error) { return seqwrite(4<<10)(t.Context(), e) },
		"rawfile":        func(e *env) (*sample, error) { return rawfile(w, 4)(t.Context(), e) },
		"rawfile-reused": func(e *env) (*sample, error) { return rawfileReused(w, 4)(t.Context(), e) },
		"pebble-set":     func(e *env) (*sample, error) { return pebbleSet(w, 4)(t.Context(), e) },
		"ingest":         func(e *env) (*sample, error) { return ingestion{workload: w, callers: 4}.run(t.Context(), e) },
	} {
		e := newEnv(t)
		e.duration = 4 * pace
		e.volume = &volume{name: "test", over: []cost{{1, pace}, {2, pace}}, grow: []cost{{1, 0}, {2, 0}}}
		s, err := run(e)
		if err != nil {
			t.Fatalf("%s: got %v, want no error", name, err)
		}
		// The histogram tells up to 3 % too much, never too little.
		if got := s.Latency.quantile(0.5); got < pace/2 {
			t.Errorf("%s: an acknowledgement took %v on a disk that syncs in %v, want at least %v", name, got, pace, pace/2)
		}
	}
}

func TestVolumeIsNotForEveryScenario(t *testing.T) {
	_, err := runBench(t, "-run", "^(ingest/sync/1KB|reopen)$", "-volume", "network", "-list")
	if err == nil || !strings.Contains(err.Error(), "reopen") {
		t.Errorf("the error is %v, want one that names reopen", err)
	}
	_, err = runBench(t, "-volume", "tape")
	if err == nil || !strings.Contains(err.Error(), `"network"`) {
		t.Errorf("the error is %v, want one that lists the volumes", err)
	}
}
