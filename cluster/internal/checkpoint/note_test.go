package checkpoint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/cluster/internal/checkpoint"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/localdisk"
)

const noteKey = "c." + instance

// orphans lets an owner with this epoch fail in the middle of a second checkpoint.
func orphans(t *testing.T, s *checkpoint.Store, disk vfs.FS, staging *buffertest.Memory, epoch uint64, before *checkpoint.Manifest) {
	t.Helper()
	var puts atomic.Int64
	staging.Before = func(_ context.Context, call buffertest.Call) error {
		if puts.Add(1) > 2 { // the manifest, and one table
			return driver.Permanent(errInjected)
		}
		return nil
	}
	defer func() { staging.Before = nil }()
	write(t, disk, snapshot, files{"local/000001.sst": "table one", "local/000010.sst": fmt.Sprint("of ", epoch), "local/000011.sst": "more"})
	stored := len(staging.Objects())
	_, _, err := s.Save(t.Context(), snapshot, checkpoint.Manifest{Instance: instance, Epoch: epoch, Log: "log", Number: 5}, before)
	if !errors.Is(err, errInjected) || len(staging.Objects()) != stored+2 {
		t.Fatalf("got %v and %d objects after %d, want the injected error and 2 more", err, len(staging.Objects()), stored)
	}
}

// What an owner leaves that dies in the middle of a checkpoint, the next one removes, on another disk.
func TestTheNextOwnerRemovesWhatIsNotNamed(t *testing.T) {
	disk, staging, owners := vfs.NewMem(), buffertest.NewMemory(), newOwners()
	newProcess := func(disk vfs.FS) *checkpoint.Store {
		return checkpoint.New(staging, owners, localdisk.On(checkpoint.Options{Parallel: 1}, disk))
	}
	s := newProcess(disk)
	write(t, disk, snapshot, twoTables)
	first, ref := save(t, s, 1, nil)
	orphans(t, s, disk, staging, 1, &first)

	nextDisk := vfs.NewMem()
	next := newProcess(nextDisk)
	named, err := next.Load(t.Context(), instance, ref)
	if err != nil {
		t.Fatal(err)
	}
	// The one whose process has died may only have restarted. It has a higher epoch nevertheless.
	if err := next.Tidy(t.Context(), instance, 2, &named); err != nil {
		t.Fatal(err)
	}
	if want := objectsOf(first, ref); fmt.Sprint(objects(staging)) != fmt.Sprint(want) {
		t.Errorf("objects %v, want %v", objects(staging), want)
	}
	expect(t, t.Context(), staging, ref, twoTables)

	// The owner that was fenced no longer removes or stores anything.
	stored := fmt.Sprint(objects(staging))
	write(t, disk, snapshot, twoTables)
	_, _, err = s.Save(t.Context(), snapshot, checkpoint.Manifest{Instance: instance, Epoch: 1, Log: "log", Number: 9}, &first)
	if !errors.Is(err, changelog.ErrFenced) || fmt.Sprint(objects(staging)) != stored {
		t.Errorf("Save of a fenced owner: %v; objects %v, want %s", err, objects(staging), stored)
	}
	if err := errors.Join(s.Tidy(t.Context(), instance, 1, &first), s.Clear(t.Context(), instance, 1, "")); !errors.Is(err, changelog.ErrFenced) || fmt.Sprint(objects(staging)) != stored {
		t.Errorf("a fenced owner tidies: %v; objects %v, want %s", err, objects(staging), stored)
	}
	// Nothing is left of a drained instance, not even objects of an earlier adopter.
	orphans(t, next, nextDisk, staging, 2, &named)
	if err := newProcess(vfs.NewMem()).Clear(t.Context(), instance, 3, ref); err != nil || len(staging.Objects()) > 0 {
		t.Errorf("left of a drained instance: %v, %v", staging.Objects(), err)
	}
}

// An owner whose checkpoint is damaged does not know the checkpoint that the record names.
func TestTidyWithoutACheckpointDeletesNothing(t *testing.T) {
	disk, staging := vfs.NewMem(), buffertest.NewMemory()
	s := newStore(staging, disk, checkpoint.Options{})
	write(t, disk, snapshot, twoTables)
	_, ref := save(t, s, 1, nil)
	if err := s.Tidy(t.Context(), instance, 2, nil); err != nil {
		t.Fatal(err)
	}
	expect(t, t.Context(), staging, ref, twoTables)
}

// A note that names what belongs to another instance, or has another format, is left alone, and so is the staging.
func TestNotesThatAreRefused(t *testing.T) {
	disk, staging, owners := vfs.NewMem(), buffertest.NewMemory(), newOwners()
	s := checkpoint.New(staging, owners, localdisk.On(checkpoint.Options{}, vfs.FS(disk)))
	write(t, disk, snapshot, twoTables)
	first, _ := save(t, s, 1, nil)
	stored := fmt.Sprint(objects(staging))
	for _, text := range []string{
		`{"format":2,"epoch":1,"refs":[]}`, `{"format":1,"epoch":1,"refs":["ckpt-000000000000-1-a"]}`, `{"format":1,"epoch":1,"refs":["rows"]}`, `{`,
	} {
		v, err := owners.Get(t.Context(), noteKey)
		if err == nil {
			_, err = owners.CompareAndSet(t.Context(), noteKey, v.Version, []byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Save(t.Context(), snapshot, checkpoint.Manifest{Instance: instance, Epoch: 1, Log: "log", Number: 2}, &first); err == nil {
			t.Errorf("Save took the note %s", text)
		}
		if s.Tidy(t.Context(), instance, 2, &first) == nil || s.Clear(t.Context(), instance, 2, "") == nil {
			t.Errorf("the note %s was taken", text)
		}
		if fmt.Sprint(objects(staging)) != stored {
			t.Fatalf("with the note %s objects were stored or deleted: %v", text, objects(staging))
		}
	}
}

// While the staging fails for a long time, the note stays small and saving is tried again.
func TestTheNoteIsBounded(t *testing.T) {
	disk, staging, owners := vfs.NewMem(), buffertest.NewMemory(), newOwners()
	var log bytes.Buffer
	s := checkpoint.New(staging, owners, localdisk.On(checkpoint.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, vfs.FS(disk)))
	staging.Before = func(context.Context, buffertest.Call) error { return driver.Permanent(errInjected) } // which is not tried again
	for i := range 1100 {
		write(t, disk, snapshot, files{"local/MANIFEST": fmt.Sprint(i)})
		_, _, err := s.Save(t.Context(), snapshot, checkpoint.Manifest{Instance: instance, Epoch: 1, Log: "log", Number: 1}, nil)
		if !errors.Is(err, errInjected) {
			t.Fatal(err)
		}
	}
	v, err := owners.Get(t.Context(), noteKey)
	if err != nil || len(v.Value) > 80<<10 || strings.Count(string(v.Value), "ckpt-") != 1024 {
		t.Errorf("the note has %d bytes and %d checkpoints: %v", len(v.Value), strings.Count(string(v.Value), "ckpt-"), err)
	}
	if !strings.Contains(log.String(), "objects of failed checkpoints left") {
		t.Error("nobody is told")
	}
	staging.Before = nil
	m, ref := save(t, s, 2, nil)
	if err := s.Tidy(t.Context(), instance, 1, &m); err != nil || fmt.Sprint(objects(staging)) != fmt.Sprint(objectsOf(m, ref)) {
		t.Errorf("objects %v: %v", objects(staging), err)
	}
}

// A staging that deletes nothing does not keep checkpoints from being made. What it kept goes when it deletes again.
func TestSaveGoesOnWhileNothingCanBeDeleted(t *testing.T) {
	disk, staging := vfs.NewMem(), buffertest.NewMemory()
	s := newStore(staging, disk, checkpoint.Options{})
	staging.Before = func(_ context.Context, call buffertest.Call) error {
		if call.Op == buffertest.OpDelete {
			return errInjected
		}
		return nil
	}
	var before *checkpoint.Manifest
	var ref string
	for i := range uint64(4) {
		write(t, disk, snapshot, files{"local/MANIFEST": fmt.Sprint(i)})
		var m checkpoint.Manifest
		m, ref = save(t, s, i, before)
		if err := s.Tidy(t.Context(), instance, 1, &m, before); before != nil && !errors.Is(err, errInjected) {
			t.Errorf("Tidy: %v", err)
		}
		before = &m
	}
	staging.Before = nil
	if err := s.Tidy(t.Context(), instance, 1, before); err != nil || fmt.Sprint(objects(staging)) != fmt.Sprint(objectsOf(*before, ref)) {
		t.Errorf("objects %v: %v", objects(staging), err)
	}
}
