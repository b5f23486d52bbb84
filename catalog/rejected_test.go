package catalog_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/disktest"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/internal/synctest"
	"github.com/forebay/forebay/mapping"
)

// priced are the columns of a sink that needs a number in a field.
func priced(field string) mapping.Columns {
	return mapping.Columns{mapping.Path("price", field, mapping.DataType(datatype.Int64), mapping.Required())}
}

// shop is a source whose sink keeps records that it cannot map.
func shop() catalog.SourceSpec {
	return catalog.SourceSpec{ID: "shop", Name: "shop", Type: forebay.HTTP, Sinks: []catalog.SinkSpec{
		{ID: "orders", Name: "orders", TableID: "in.c-shop.orders", Columns: priced("price"), OnReject: forebay.Quarantine},
	}}
}

// reject sends events that the sink of shop rejects, with the numbers from first on in their field n.
func reject(t *testing.T, eng *forebay.Engine, first, count int) {
	t.Helper()
	for i := range count {
		rec := mapping.JSON(fmt.Appendf(nil, `{"n":%d}`, first+i))
		rec.Request = mapping.RequestLine{Method: "POST", Path: "/p", Query: "q=1"}
		rec.Header = map[string][]string{"User-Agent": {"till/7"}, "Cookie": {"canary"}}
		res, err := eng.Ingest(t.Context(), "shop", rec)
		if err != nil || res.Sinks[0].Status != forebay.Quarantined {
			t.Fatalf("got %+v, %v, want no error and res.Sinks[0].Status == %v", res, err, forebay.Quarantined)
		}
	}
}

// listed returns all records that a node lists, in pages.
func listed(t *testing.T, cat *catalog.Catalog, limit int) (list []forebay.RejectedRecord, missing []catalog.Missing) {
	t.Helper()
	var f forebay.RejectedFilter
	for range 1000 {
		page, err := cat.Handle("shop", "orders").Rejected(t.Context(), f, limit)
		must(t, err)
		list, missing = append(list, page.Records...), page.Missing
		if f.After = page.Next; f.After == "" {
			return list, missing
		}
	}
	t.Fatal("the list has no end")
	return nil, nil
}

func idsOf(list []forebay.RejectedRecord) (ids []string) {
	for _, r := range list {
		ids = append(ids, r.ID)
	}
	slices.Sort(ids)
	return ids
}

// orders returns the table, sorted.
func orders(mem *buffertest.Memory) (list []string) {
	for _, row := range mem.Rows("in.c-shop.orders") {
		list = append(list, row[0])
	}
	slices.Sort(list)
	return list
}

// numbers are the texts of 0 to n-1, sorted.
func numbers(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprint(i))
	}
	slices.Sort(list)
	return list
}

// OnReject and the bounds are kept with the versions of a sink. A patch changes them, and one without them leaves them as they are.
func TestQuarantineIsPartOfASink(t *testing.T) {
	eng, store := openEngine(t, forebay.Options{}), newMemory()
	cat := openCatalog(t, eng, catalog.Options{Store: store})
	do := done(t, cat)
	bounds := catalog.QuarantineBounds{MaxBytes: 1 << 20, MaxRecords: 7, MaxAge: 90 * time.Minute, DropOldest: true}
	source := shop()
	source.Sinks[0].Quarantine = bounds
	do(cat.CreateSource(user, source))
	want := func(cat *catalog.Catalog, on forebay.OnReject, b catalog.QuarantineBounds, version int) {
		t.Helper()
		if _, s, err := cat.Sink("shop", "orders"); err != nil || s.OnReject != on || s.Quarantine != b || s.Version.Number != version {
			t.Errorf("got %+v, %v, want version %d with %v and %+v", s, err, version, on, b)
		}
		def, _ := cat.Engine().Source("shop")
		if def.Sinks[0].Version != version || def.Sinks[0].OnReject != on || def.Sinks[0].Quarantine != buffer.QuarantineBounds(b) {
			t.Errorf("the engine has %+v", def.Sinks[0])
		}
	}
	want(cat, forebay.Quarantine, bounds, 1)
	do(cat.UpdateSink(user, "shop", "orders", catalog.SinkPatch{Description: new("more")}))
	want(cat, forebay.Quarantine, bounds, 2)
	do(cat.UpdateSink(user, "shop", "orders", catalog.SinkPatch{OnReject: new(forebay.Refuse)}))
	want(cat, forebay.Refuse, bounds, 3)
	do(cat.UpdateSink(user, "shop", "orders", catalog.SinkPatch{Quarantine: &catalog.QuarantineBounds{}}))
	want(cat, forebay.Refuse, catalog.QuarantineBounds{}, 4)
	do(cat.Rollback(user, catalog.Ref{Source: "shop", Sink: "orders"}, 2, 0))
	want(cat, forebay.Quarantine, bounds, 5)
	again := openCatalog(t, openEngine(t, forebay.Options{}), catalog.Options{Store: store.clone()})
	want(again, forebay.Quarantine, bounds, 5)
	if _, err := cat.UpdateSink(user, "shop", "orders", catalog.SinkPatch{OnReject: new(forebay.OnReject(9))}); code(err) != catalog.BadRequest {
		t.Errorf("an unknown OnReject: %v", err)
	}
	if _, err := cat.UpdateSink(user, "shop", "orders", catalog.SinkPatch{Quarantine: &catalog.QuarantineBounds{MaxAge: -1, MaxRecords: -1}}); code(err) != catalog.BadRequest ||
		!strings.Contains(err.Error(), "MaxAge") || !strings.Contains(err.Error(), "MaxRecords") {
		t.Errorf("bounds out of range: %v", err)
	}
}

// Any node lists the records of all, and reads, edits, tests, replays and discards each. A node that does not respond is named, and no
// record that it may have is said to be gone.
func TestQuarantineThroughAnyNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newNodes(t, catalog.Options{})
		all := cluster.three()
		a, b, c := all[0], all[1], all[2]
		done(t, a.Catalog)(a.CreateSource(user, shop()))
		same(t, all...)
		const each, nodes = 7, 3
		for i := range each { // in turn, so that the list has to merge
			for n, one := range all {
				reject(t, one.eng, n*each+i, 1)
				time.Sleep(time.Millisecond)
			}
		}
		whole, _ := listed(t, a.Catalog, 1000)
		if len(whole) != nodes*each || !slices.IsSortedFunc(whole, func(a, b forebay.RejectedRecord) int { return a.At.Compare(b.At) }) {
			t.Fatalf("got %d records, %+v, want %d in the order of their times", len(whole), whole, nodes*each)
		}
		for _, n := range all {
			for _, limit := range []int{1, 4, 21, 22} {
				list, missing := listed(t, n.Catalog, limit)
				if !slices.EqualFunc(list, whole, func(a, b forebay.RejectedRecord) bool { return a == b }) || missing != nil {
					t.Errorf("in pages of %d the list has %d records: %+v, without %v", limit, len(list), list, missing)
				}
			}
		}

		of := func(n *node) string { // the oldest record of a node
			for _, r := range whole {
				if n.eng.Sink("shop", "orders").Quarantine().Has(r.ID) {
					return r.ID
				}
			}
			t.Fatal("the node has none")
			return ""
		}
		far := of(c)
		content, err := a.Handle("shop", "orders").RejectedRecord(t.Context(), far)
		rec := content.Record
		if err != nil || string(rec.Body) != `{"n":14}` || rec.Request.Query != "q=1" || rec.Header.Get("User-Agent") != "till/7" || !slices.Equal(content.Removed, []string{"Cookie"}) ||
			content.Reason != "missingValue" || rec.Received.IsZero() {
			t.Fatalf("got %+v, %+v, %v, want the rejected record and its content", content, rec, err)
		}
		cells, err := a.Handle("shop", "orders").TestRejected(t.Context(), far)
		if err != nil || len(cells) != 1 || cells[0].Reason != "missingValue" || cells[0].Error == "" || cells[0].Column != "price" {
			t.Errorf("got %+v, %v, want one cell, price, whose value is missing", cells, err)
		}
		if res, err := b.Handle("shop", "orders").ReplayRejected(t.Context(), far); err != nil || res != (catalog.RejectsResult{Rejected: 1}) {
			t.Errorf("got %+v, %v, want no error and res == (catalog.RejectsResult{Rejected: 1})", res, err)
		}
		if err := a.Handle("shop", "orders").EditRejected(t.Context(), user, far, 0, []byte(`{"price":14}`)); code(err) != catalog.RecordChanged {
			t.Errorf("an edit of an earlier revision: %v", err)
		}
		if err := a.Handle("shop", "orders").EditRejected(t.Context(), user, far, 1, []byte(`{"price":14}`)); err != nil {
			t.Error(err)
		}
		if res, err := b.Handle("shop", "orders").ReplayRejected(t.Context(), far); err != nil || res != (catalog.RejectsResult{Replayed: 1}) {
			t.Errorf("got %+v, %v, want no error and res == (catalog.RejectsResult{Replayed: 1})", res, err)
		}
		if _, err := a.Handle("shop", "orders").ReplayRejected(t.Context(), far); code(err) != catalog.RecordNotFound {
			t.Errorf("a replay of what was replayed: %v", err)
		}

		// The third node goes silent.
		c.deaf.Store(true)
		list, missing := listed(t, a.Catalog, 100)
		if len(list) != 2*each || len(missing) != 1 || missing[0].Node != "c" {
			t.Errorf("got %d records without %v, want %d without node c", len(list), missing, 2*each)
		}
		var lacks *catalog.MissingError
		if err := a.Handle("shop", "orders").DiscardRejected(t.Context(), user, far, ""); !errors.As(err, &lacks) || lacks.Missing[0].Node != "c" {
			t.Errorf("discard of a record that a silent node may have: %v", err)
		}
		done(t, a.Catalog)(a.UpdateSink(user, "shop", "orders", catalog.SinkPatch{Columns: priced("n")}))
		same(t, a, b)
		task, err := b.Handle("shop", "orders").ReplayRejects(catalog.RejectedSelection{})
		must(t, err)
		if _, err := b.Handle("shop", "orders").ReplayRejects(catalog.RejectedSelection{}); code(err) != catalog.Busy {
			t.Errorf("a second replay beside the first: %v", err)
		}
		task, err = b.Wait(t.Context(), task.ID)
		if err != nil || task.Status != catalog.Failed || *task.Rejects != (catalog.RejectsResult{Replayed: 2 * each}) || !strings.Contains(task.Failure, "node c") {
			t.Errorf("got %+v, %+v, %v, want a failure that names node c after %d replays", task, task.Rejects, err, 2*each)
		}
		c.deaf.Store(false)
		same(t, all...)
		last := of(c)
		for _, r := range whole { // a record of the third node, by its id
			if r.ID != far && c.eng.Sink("shop", "orders").Quarantine().Has(r.ID) {
				last = r.ID
			}
		}
		task = done(t, a.Catalog)(a.Handle("shop", "orders").ReplayRejects(catalog.RejectedSelection{IDs: []string{last, far, last}}))
		if *task.Rejects != (catalog.RejectsResult{Replayed: 1, Gone: 1}) {
			t.Errorf("got %+v, want *task.Rejects == (catalog.RejectsResult{Replayed: 1, Gone: 1})", task.Rejects)
		}
		task = done(t, a.Catalog)(a.Handle("shop", "orders").ReplayRejects(catalog.RejectedSelection{}))
		if *task.Rejects != (catalog.RejectsResult{Replayed: each - 2}) {
			t.Errorf("got %+v, want *task.Rejects == (catalog.RejectsResult{Replayed: each - 2})", task.Rejects)
		}
		for _, n := range all {
			must(t, n.eng.FlushAll(t.Context()))
			st, err := n.Handle("shop", "orders").Statistics(t.Context())
			if q := st.Quarantine; err != nil || q.Records != 0 || q.Added != nodes*each || q.Replayed != nodes*each || !q.OldestAt.IsZero() {
				t.Errorf("got %+v, %v, want all %d records replayed, none left", q, err, nodes*each)
			}
		}
		if got, want := orders(cluster.target), numbers(nodes*each); !slices.Equal(got, want) {
			t.Errorf("the table has %q, want %q", got, want)
		}
	})
}

// The records of a node that is lost are replayed by its adopter, whose engine has no definitions.
func TestQuarantineOfAnAdoptedInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newNodes(t, catalog.Options{})
		folder := filepath.Join(t.TempDir(), "data")
		eng, err := forebay.Open(folder, forebay.Options{Target: cluster.target})
		must(t, err)
		lost, b, c := cluster.openWith("a", "a", eng), cluster.open("b"), cluster.open("c")
		done(t, b.Catalog)(b.CreateSource(user, shop()))
		same(t, lost, b, c)
		reject(t, eng, 0, 5)
		reject(t, b.eng, 5, 2)
		lost.deaf.Store(true)
		must(t, errors.Join(lost.Close(), eng.Close()))
		restored, err := forebay.Open(folder, forebay.Options{Target: cluster.target})
		must(t, err)
		defer restored.Close()
		adoption, err := b.Adopt("a", 2, restored)
		must(t, err)
		defer adoption.Close()
		list, missing := listed(t, c.Catalog, 3)
		if len(list) != 7 || len(missing) != 0 {
			t.Fatalf("got %d records without %v, want 7 of all nodes", len(list), missing)
		}
		i := slices.IndexFunc(list, func(r forebay.RejectedRecord) bool { return restored.Sink("shop", "orders").Quarantine().Has(r.ID) })
		if cells, err := c.Handle("shop", "orders").TestRejected(t.Context(), list[i].ID); err != nil || cells[0].Reason != "missingValue" {
			t.Errorf("got %+v, %v, want no error and cells[0].Reason == \"missingValue\"", cells, err)
		}
		done(t, c.Catalog)(c.UpdateSink(user, "shop", "orders", catalog.SinkPatch{Columns: priced("n")}))
		same(t, b, c)
		task := done(t, c.Catalog)(c.Handle("shop", "orders").ReplayRejects(catalog.RejectedSelection{}))
		if *task.Rejects != (catalog.RejectsResult{Replayed: 7}) {
			t.Errorf("got %+v, want *task.Rejects == (catalog.RejectsResult{Replayed: 7})", task.Rejects)
		}
		if sources := restored.Sources(); len(sources) != 0 {
			t.Errorf("the adopted engine still has %v", sources)
		}
		for _, e := range []*forebay.Engine{restored, b.eng} {
			must(t, e.FlushAll(t.Context()))
		}
		if got, want := orders(cluster.target), numbers(7); !slices.Equal(got, want) {
			t.Errorf("the table has %q, want %q", got, want)
		}
		must(t, adoption.Finish(t.Context()))
		adoption.Close()
		for _, n := range []*node{b, c} {
			must(t, n.CatchUp(t.Context()))
			st, err := n.Handle("shop", "orders").Statistics(t.Context())
			if q := st.Quarantine; err != nil || q.Records != 0 || q.Added != 7 || q.Replayed != 7 || st.Target.Rows != 7 {
				t.Errorf("got %+v, %v, want 7 rows in the table from 7 replayed records", st, err)
			}
		}
	})
}

// A power cut in the middle of a task, at any write, leaves each record in the quarantine or in the rows. The task says that it was
// interrupted, and the next one replays the rest.
func TestPowerCutDuringReplay(t *testing.T) {
	const records = 350 // several steps
	seed := seedtest.Of(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	writes := int64(0)
	run := func(t *testing.T, cutAt int64) {
		disk, store := disktest.New(t), newMemory()
		var counting atomic.Bool
		var n atomic.Int64
		var once sync.Once
		var cut atomic.Pointer[disktest.Disk]
		var cutStore atomic.Pointer[memory]
		percent := rng.IntN(101)
		injector := errorfs.InjectorFunc(func(op errorfs.Op) error {
			if counting.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && n.Add(1) == cutAt {
				once.Do(func() {
					cutStore.Store(store.clone())
					cut.Store(disk.Cut(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(seed, uint64(cutAt)))}))
				})
			}
			return nil
		})
		options := func(fs vfs.FS, mem *buffertest.Memory) forebay.Options {
			return forebay.Options{Target: mem, Staging: mem, Buffer: localdisk.On(buffer.Tuning{MemTableBytes: 1 << 20}, fs)}
		}
		open := func(o forebay.Options, s *memory) (*forebay.Engine, *catalog.Catalog) {
			t.Helper()
			eng, err := forebay.Open("data", o)
			must(t, err)
			cat, err := catalog.Open("unused", eng, catalog.Options{Store: s})
			must(t, err)
			return eng, cat
		}
		eng, cat := open(options(disktest.Wrap(disk, injector), buffertest.NewMemory()), store)
		done(t, cat)(cat.CreateSource(user, shop()))
		reject(t, eng, 0, records)
		done(t, cat)(cat.UpdateSink(user, "shop", "orders", catalog.SinkPatch{Columns: priced("n")}))
		counting.Store(true)
		task := done(t, cat)(cat.Handle("shop", "orders").ReplayRejects(catalog.RejectedSelection{}))
		synctest.Wait()
		counting.Store(false)
		writes = n.Load()
		if *task.Rejects != (catalog.RejectsResult{Replayed: records}) {
			t.Errorf("got %+v, want *task.Rejects == (catalog.RejectsResult{Replayed: records})", task.Rejects)
		}
		must(t, errors.Join(cat.Close(), eng.Close()))
		if cut.Load() == nil {
			return
		}

		mem := buffertest.NewMemory()
		eng, cat = open(options(cut.Load(), mem), cutStore.Load())
		left := len(idsOf(func() []forebay.RejectedRecord { l, _ := listed(t, cat, 100); return l }()))
		// The end of the task does not wait for the newest copy of the records of the disk, so a cut at that write may come after it.
		again, err := cat.Task(task.ID)
		if ended := again.Status == catalog.Succeeded && left == 0; err != nil || !ended && (again.Status != catalog.Failed || !strings.Contains(again.Failure, "nothing is stored twice")) {
			t.Errorf("cut at write %d of %d: %d were left, the task is %+v, %v", cutAt, writes, left, again, err)
		}
		again = done(t, cat)(cat.Handle("shop", "orders").ReplayRejects(catalog.RejectedSelection{}))
		if *again.Rejects != (catalog.RejectsResult{Replayed: left}) {
			t.Errorf("cut at write %d of %d: %d were left, the second task has %+v", cutAt, writes, left, again.Rejects)
		}
		must(t, eng.FlushAll(t.Context()))
		if got := orders(mem); !slices.Equal(got, numbers(records)) {
			t.Errorf("cut at write %d of %d: the table has %d rows: %q", cutAt, writes, len(got), got)
		}
		if report, err := eng.Verify(t.Context()); err != nil || !report.OK() {
			t.Errorf("cut at write %d of %d: %+v, %v", cutAt, writes, report, err)
		}
		if err := errors.Join(cat.Close(), eng.Close()); err != nil {
			t.Error(err)
		}
	}
	synctest.Test(t, func(t *testing.T) { run(t, -1) })
	if writes < 4 {
		t.Fatalf("a replay has %d writes: nothing is between them", writes)
	}
	for at := int64(1); at <= writes; at++ {
		synctest.Test(t, func(t *testing.T) { run(t, at) })
	}
}
