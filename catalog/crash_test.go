package catalog_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/internal/proctest"
	"github.com/forebay/forebay/internal/seedtest"
)

var kills = flag.Int("kills", 20, "how often TestKill kills the process")

// ack is a change that was acknowledged. The task has succeeded, and the source or sink has this version with this
// description, or the source is deleted.
type ack struct {
	Task, Source, Sink string
	Version            int
	Description        string
	Deleted            bool
}

const churners = 4

// churn changes definitions until the process is killed, and writes a line for every change that was acknowledged. Each
// of its goroutines has its own source, so that the last line of a source describes its state.
func churn(arg string) error {
	dir, text, _ := strings.Cut(arg, "|")
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return err
	}
	eng, err := forebay.Open(filepath.Join(dir, "data"), forebay.Options{Target: buffertest.NewMemory()})
	if err != nil {
		return err
	}
	cat, err := catalog.Open(filepath.Join(dir, "catalog"), eng, catalog.Options{})
	if err != nil {
		return err
	}
	failures := make(chan error, churners)
	for i := range churners {
		go func() { failures <- churnSource(cat, fmt.Sprintf("s%d", i), rand.New(rand.NewPCG(seed, uint64(i)))) }()
	}
	return <-failures
}

func churnSource(cat *catalog.Catalog, id string, rng *rand.Rand) error {
	ctx := context.Background()
	for {
		source, err := cat.Source(id)
		live := err == nil
		var task catalog.Task
		sink := ""
		text := fmt.Sprint(rng.Uint64())
		switch n := rng.IntN(10); {
		case !live && rng.IntN(2) == 0:
			if task, err = cat.Undelete(user, catalog.Ref{Source: id}); code(err) != catalog.DeletedSourceNotFound {
				break
			}
			fallthrough
		case !live:
			task, err = cat.CreateSource(user, catalog.SourceSpec{ID: id, Name: "S", Type: forebay.HTTP, Description: text, Sinks: sinkSpecs("a", "b", "c")})
		case n == 0:
			task, err = cat.Delete(user, catalog.Ref{Source: id})
		case n < 4:
			task, err = cat.UpdateSource(user, id, catalog.SourcePatch{Description: &text})
		case n == 4 && source.Disabled == nil:
			task, err = cat.Disable(user, catalog.Ref{Source: id})
		case n == 4:
			task, err = cat.Enable(user, catalog.Ref{Source: id})
		case n == 5:
			_, err = cat.RotateSecret(ctx, user, id, time.Duration(rng.IntN(2))*time.Hour)
		default:
			_, sinks, e := cat.Sinks(id, false)
			if e != nil || len(sinks) == 0 {
				continue
			}
			sink = sinks[rng.IntN(len(sinks))].ID
			task, err = cat.UpdateSink(user, id, sink, catalog.SinkPatch{Description: &text})
		}
		if err != nil {
			return fmt.Errorf("source %s: %w", id, err)
		}
		if task.ID != "" {
			if task, err = cat.Wait(ctx, task.ID); err != nil || task.Status != catalog.Succeeded {
				return fmt.Errorf("task %+v: %w", task, err)
			}
		}
		done := ack{Task: task.ID, Source: id, Sink: sink}
		if sink != "" {
			_, s, err := cat.Sink(id, sink)
			if err != nil {
				return err
			}
			done.Version, done.Description = s.Version.Number, s.Description
		} else if s, err := cat.Source(id); err == nil {
			done.Version, done.Description = s.Version.Number, s.Description
		} else {
			done.Deleted = true
		}
		line, err := json.Marshal(done)
		if err != nil {
			return err
		}
		if _, err := os.Stdout.Write(append(line, '\n')); err != nil {
			return err
		}
	}
}

func sinkSpecs(names ...string) []catalog.SinkSpec { return spec("", names...).Sinks }

// TestKill kills a process, again and again, while it changes definitions. What it has acknowledged is there, versions
// have no gap, and of every change there is all or nothing.
func TestKill(t *testing.T) {
	if arg, ok := proctest.Child(); ok {
		t.Fatal(churn(arg))
	}
	if testing.Short() {
		t.Skip("starts processes")
	}
	rng := seedtest.Rand(t)
	dir := t.TempDir()
	acks := 0
	for range *kills {
		last := map[string]ack{}
		for _, a := range runChild(t, dir, rng.Uint64(), 1+rng.IntN(60)) {
			last[a.Source+"/"+a.Sink] = a
			if a.Deleted {
				for _, sink := range []string{"a", "b", "c"} {
					delete(last, a.Source+"/"+sink)
				}
			}
			acks++
		}
		checkKilled(t, dir, last)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d kills, %d acknowledged changes", *kills, acks)
}

// runChild starts a process, kills it after some acknowledged changes, and returns the changes that it has written.
func runChild(t *testing.T, dir string, seed uint64, after int) (acks []ack) {
	t.Helper()
	proctest.Start(t, t.Name(), fmt.Sprint(dir, "|", seed)).Lines(after, 0, func(line string) {
		var a ack
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatalf("%q: got %v, want no error", line, err)
		}
		acks = append(acks, a)
	})
	return acks
}

func checkKilled(t *testing.T, dir string, last map[string]ack) {
	t.Helper()
	eng, err := forebay.Open(filepath.Join(dir, "data"), forebay.Options{Target: buffertest.NewMemory()})
	must(t, err)
	defer eng.Close()
	cat, err := catalog.Open(filepath.Join(dir, "catalog"), eng, catalog.Options{})
	must(t, err)
	defer cat.Close()
	all := map[string]catalog.Source{}
	for _, source := range append(cat.Sources(true), cat.Sources(false)...) {
		all[source.ID] = source
	}
	for _, a := range last {
		// At most one change followed that was not acknowledged.
		if v := all[a.Source].Version.Number; v == 0 || a.Sink == "" && !a.Deleted && v != a.Version && v != a.Version+1 {
			t.Errorf("%+v: the source has version %d", a, v)
		}
		if a.Task != "" {
			if task, err := cat.Task(a.Task); err != nil || task.Status != catalog.Succeeded {
				t.Errorf("%+v: the task is %+v, %v", a, task, err)
			}
		}
		if a.Deleted {
			continue // it may be back by a change that was not acknowledged yet
		}
		var content struct{ Description string }
		version, record, err := cat.Version(catalog.Ref{Source: a.Source, Sink: a.Sink}, a.Version)
		if err == nil {
			err = json.Unmarshal(record, &content)
		}
		if code(err) == catalog.SourceNotFound {
			continue // deleted by a change that was not acknowledged yet
		}
		if err != nil || version.Number != a.Version || content.Description != a.Description {
			t.Errorf("%+v: version is %+v with %q, %v", a, version, content.Description, err)
		}
	}
	for _, source := range cat.Sources(false) {
		versions, err := cat.Versions(catalog.Ref{Source: source.ID})
		checkVersions(t, source.String(), versions, err, source.Version)
		_, sinks, _ := cat.Sinks(source.ID, false)
		names := []string{}
		for _, s := range sinks {
			names = append(names, s.ID)
			versions, err := cat.Versions(catalog.Ref{Source: source.ID, Sink: s.ID})
			checkVersions(t, source.ID+" "+s.String(), versions, err, s.Version)
		}
		if !slices.Equal(names, []string{"a", "b", "c"}) {
			t.Errorf("source %s has the sinks %v: half of a change", source.ID, names)
		}
		def, ok := eng.Source(source.ID)
		if !ok || def.Secret != source.Secret || def.Disabled != (source.Disabled != nil) {
			t.Errorf("the engine does not follow %v", source)
		}
	}
	for _, task := range cat.Tasks() {
		if !task.Finished() {
			t.Errorf("task %+v has no end", task)
		}
	}
}

// checkVersions checks that the versions run from 1, or from the oldest that is kept, to the last one.
func checkVersions(t *testing.T, what string, versions []catalog.Version, err error, last catalog.Version) {
	t.Helper()
	if err != nil || len(versions) == 0 || versions[len(versions)-1] != last {
		t.Errorf("%s: got versions %v, %v, want the last to be %v", what, versions, err, last)
		return
	}
	for i, v := range versions {
		if v.Number != versions[0].Number+i {
			t.Errorf("%s: version %d follows %d, want %v", what, v.Number, versions[i-1].Number, versions[0].Number+i)
		}
	}
	if want := max(1, last.Number-catalog.MaxVersions+1); versions[0].Number != want {
		t.Errorf("%s: the oldest version is %d, want %d", what, versions[0].Number, want)
	}
}
