package iceberg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	iceberglib "github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// A merge replaces small data files by one file with the same rows. The contract:
//
//   - A merge is one commit of the operation replace. It adds no row, removes no row, and changes no property of the table, so the ids of
//     imported files stay.
//   - The replaced files stay on disk as long as a snapshot refers to them. A reader of an older snapshot reads the same rows until that
//     snapshot expires.
//   - The commit requires the snapshot that the driver has read. If another commit is faster, the driver reads the table again. It commits the
//     same merged file if all sources are still in the table, without deletes, and the table has the same schema, partitioning and sort
//     order. Else it gives up, and the next Compact plans again. A column that is added in the moment of the commit is harmless, because
//     readers match columns by their ids.
//   - A commit with an unknown outcome is looked up. Either the merged file is in the table or its sources are.
//   - The driver merges only data files that it has written itself. Files of other programs, files with deletes, files of an older
//     partitioning, sorted files, and tables with columns that the driver cannot write stay as they are, and so do tables of format version 3,
//     whose rows have identities.
//   - The merged file is read again and compared with its sources before a commit refers to it.
//
// Rows are streamed in batches, one source after the other. One commit merges at most Options.MergeTo bytes.

const (
	// mergeFrom is the number of files of about one size that are merged. A row is rewritten about log8(MergeTo / size of a file) times.
	mergeFrom = 8
	// mergeEvery is the time after which the files of a table are listed, even if this process has imported few.
	mergeEvery = time.Hour
	// maxSources bounds the files that one commit replaces.
	maxSources = 4096
	// mergedKey is in the summary of a snapshot, for people. It is the number of replaced files.
	mergedKey = "forebay.merged"
)

// mergePlan is the sources of one commit, and later the merged files.
type mergePlan struct {
	base    *table.Table // from which the sources were read
	groups  [][]iceberglib.DataFile
	live    int // data files of the table
	sources []iceberglib.DataFile
	merged  []iceberglib.DataFile
	tried   bool // a commit was begun, so the merged files must stay
}

// mergeFiles merges small files until no more can be merged.
func (x *compaction) mergeFiles() error {
	now := time.Now()
	if x.t.opts.MergeTo < 0 || now.Before(x.c.listAt) && x.c.added.Load() < max(mergeFrom, x.c.live/4) {
		return nil
	}
	for {
		added := x.c.added.Load()
		tbl, err := x.table()
		if err != nil || tbl == nil {
			return err
		}
		plan, err := planMerge(x.ctx, tbl, x.t.opts.MergeTo)
		if err != nil {
			return err
		}
		x.c.added.Add(-added)
		x.c.live = int64(plan.live)
		x.c.listAt = now.Add(mergeEvery)
		if len(plan.groups) == 0 {
			return nil
		}
		if committed, err := x.merge(plan); err != nil || !committed {
			return err
		}
	}
}

// merge writes the merged files of a plan and commits them. It reports whether it did.
func (x *compaction) merge(plan *mergePlan) (committed bool, err error) {
	recorded, created, err := recordCreated(x.ctx, plan.base)
	if err != nil {
		return false, err
	}
	defer func() {
		if !plan.tried {
			created.remove()
		}
	}()
	filtered, err := x.t.withFilters(recorded)
	if err != nil {
		return false, err
	}
	for _, group := range plan.groups {
		merged, err := writeMerged(x.ctx, filtered, group)
		if err != nil {
			return false, err
		}
		plan.sources = append(plan.sources, group...)
		plan.merged = append(plan.merged, merged...)
	}
	x.loaded = nil
	return x.commitMerge(plan)
}

// planMerge chooses the files of a table that are merged next.
func planMerge(ctx context.Context, tbl *table.Table, mergeTo int64) (*mergePlan, error) {
	plan := &mergePlan{base: tbl}
	if tbl.CurrentSnapshot() == nil {
		return plan, nil
	}
	files, err := liveFiles(ctx, tbl)
	if err != nil {
		return nil, err
	}
	plan.live = len(files)
	if !mergeable(tbl) {
		return plan, nil
	}
	type group struct {
		partition string
		tier      int
	}
	groups := make(map[group][]iceberglib.DataFile)
	for _, f := range files {
		if d := f.data; !f.deletes && ownFile(d.FilePath()) && d.FileSizeBytes() <= mergeTo/2 && plainFile(tbl, d) {
			g := group{fmt.Sprintf("%#v", d.Partition()), bits.Len64(uint64(d.FileSizeBytes())) / 3}
			groups[g] = append(groups[g], d)
		}
	}
	left, room := mergeTo, maxSources
	inOrder := func(a, b group) int {
		return cmp.Or(cmp.Compare(a.partition, b.partition), cmp.Compare(a.tier, b.tier))
	}
	for _, g := range slices.SortedFunc(maps.Keys(groups), inOrder) {
		sources := groups[g]
		if len(sources) < mergeFrom {
			continue
		}
		n := 0
		for n < min(len(sources), room) && sources[n].FileSizeBytes() <= left {
			left -= sources[n].FileSizeBytes()
			n++
		}
		if n > 1 {
			plan.groups = append(plan.groups, sources[:n])
			room -= n
		}
	}
	return plan, nil
}

// mergeable reports whether the driver knows everything that the table asks of a data file.
func mergeable(tbl *table.Table) bool {
	if tbl.Metadata().Version() > 2 || tbl.SortOrder().Len() > 0 {
		return false
	}
	return !slices.ContainsFunc(tbl.Schema().Fields(), func(f iceberglib.NestedField) bool {
		typ := typeOf(f)
		return !storageOf(typ).Equals(f.Type) || f.InitialDefault != nil
	})
}

// plainFile reports whether a data file has the partitioning of the table, and nothing that a merge would lose.
func plainFile(tbl *table.Table, d iceberglib.DataFile) bool {
	spec := tbl.Spec()
	return int(d.SpecID()) == spec.ID() && (d.SortOrderID() == nil || *d.SortOrderID() == table.UnsortedSortOrderID) &&
		d.FileFormat() == iceberglib.ParquetFile && d.KeyMetadata() == nil && d.ContentType() == iceberglib.EntryContentData
}

// liveFile is a data file of the newest snapshot.
type liveFile struct {
	data    iceberglib.DataFile
	deletes bool // rows of the file are deleted
}

// liveFiles lists the data files of the newest snapshot, in the order of their paths.
func liveFiles(ctx context.Context, tbl *table.Table) ([]liveFile, error) {
	tasks, err := tbl.Scan().PlanFiles(ctx)
	if err != nil {
		return nil, err
	}
	files := make(map[string]liveFile)
	for _, task := range tasks { // a large file has several tasks
		path := task.File.FilePath()
		deletes := len(task.DeleteFiles)+len(task.EqualityDeleteFiles)+len(task.DeletionVectorFiles) > 0
		files[path] = liveFile{task.File, deletes || files[path].deletes}
	}
	list := make([]liveFile, 0, len(files))
	for _, path := range slices.Sorted(maps.Keys(files)) {
		list = append(list, files[path])
	}
	return list, nil
}

// tasksOf returns the scan of whole files.
func tasksOf(files []iceberglib.DataFile) []table.FileScanTask {
	tasks := make([]table.FileScanTask, len(files))
	for i, d := range files {
		tasks[i] = table.FileScanTask{File: d, Length: d.FileSizeBytes()}
	}
	return tasks
}

// writeMerged writes the rows of files of one partition to as few files as the table allows, and compares both.
func writeMerged(ctx context.Context, tbl *table.Table, sources []iceberglib.DataFile) (merged []iceberglib.DataFile, err error) {
	want, got := newSums(tbl), newSums(tbl)
	schema, rows, err := readFiles(ctx, tbl, sources, want)
	if err != nil {
		return nil, err
	}
	written := table.WriteRecords(ctx, tbl, schema, rows, table.WithClusteredWrite(), table.WithWriteUUID(mergeUUID()),
		table.WithRecordBatchBufferSize(queuedBatches))
	for d, err := range written {
		if err != nil {
			return nil, err
		}
		merged = append(merged, d)
	}
	slices.SortFunc(merged, func(a, b iceberglib.DataFile) int { return cmp.Compare(a.FilePath(), b.FilePath()) })
	if _, rows, err = readFiles(ctx, tbl, merged, got); err != nil {
		return nil, err
	}
	for batch, err := range rows {
		if err != nil {
			return nil, err
		}
		batch.Release()
	}
	var in, out int64
	for _, d := range sources {
		in += d.Count()
	}
	for _, d := range merged {
		out += d.Count()
	}
	if in != out || !want.equal(got) {
		return nil, fmt.Errorf("the merged file of %s and %d other files has %d rows, want %d, or other values: the files stay",
			sources[0].FilePath(), len(sources)-1, out, in)
	}
	return merged, ctx.Err()
}

// readFiles reads whole files, one after the other, and adds their rows to sums.
func readFiles(ctx context.Context, tbl *table.Table, files []iceberglib.DataFile, to *sums) (*arrow.Schema, iter.Seq2[arrow.RecordBatch, error], error) {
	scan := tbl.Scan(table.WithMaxConcurrency(1), table.WithArrowBatchSize(batchRows))
	schema, rows, err := scan.ReadTasks(ctx, tasksOf(files))
	if err != nil {
		return nil, nil, err
	}
	return schema, func(yield func(arrow.RecordBatch, error) bool) {
		to.turn.Lock() // the library reads in another goroutine
		defer to.turn.Unlock()
		for batch, err := range rows {
			if err == nil {
				err = to.add(batch)
			}
			if !yield(batch, err) || err != nil {
				return
			}
		}
	}, nil
}

// commitMerge replaces the sources of a plan by the merged files, unless the table no longer has the sources.
func (x *compaction) commitMerge(plan *mergePlan) (committed bool, err error) {
	var failed error // the error of the last commit
	var base string  // the metadata that it was based on
	for round := range maxRaces {
		if round > 0 {
			if err := pause(x.ctx, round); err != nil {
				return false, err
			}
		}
		var done bool
		err := x.inTurn(func() error { // imports of this process wait, so that they do not conflict
			tbl, err := x.t.load(x.ctx, x.id)
			if err != nil {
				return errors.Join(failed, err)
			}
			if committed, done, err = plan.outcome(x.ctx, tbl); err != nil || done {
				return err
			}
			if failed != nil && tbl.MetadataLocation() == base && !isConflict(failed) {
				return failed
			}
			base = tbl.MetadataLocation()
			plan.tried = true
			failed = x.t.commitFiles(x.ctx, tbl, plan)
			committed = failed == nil
			done = committed
			return nil
		})
		if err != nil || done {
			return committed, err
		}
	}
	return false, fmt.Errorf("others keep changing the table: %w", failed)
}

// outcome compares a plan with the table. committed means that the merged files are in the table, and done that no further attempt helps.
func (p *mergePlan) outcome(ctx context.Context, tbl *table.Table) (committed, done bool, err error) {
	if tbl == nil || tbl.Metadata().TableUUID() != p.base.Metadata().TableUUID() || tbl.CurrentSnapshot() == nil {
		return false, true, nil
	}
	spec, baseSpec := tbl.Spec(), p.base.Spec()
	same := tbl.Schema().ID == p.base.Schema().ID && spec.ID() == baseSpec.ID() && mergeable(tbl)
	if same && tbl.CurrentSnapshot().SnapshotID == p.base.CurrentSnapshot().SnapshotID {
		return false, false, nil
	}
	files, err := liveFiles(ctx, tbl)
	if err != nil {
		return false, false, err
	}
	live := make(map[string]liveFile, len(files))
	for _, f := range files {
		live[f.data.FilePath()] = f
	}
	if _, found := live[p.merged[0].FilePath()]; found {
		return true, true, nil
	}
	gone := slices.ContainsFunc(p.sources, func(d iceberglib.DataFile) bool {
		f, found := live[d.FilePath()]
		return !found || f.deletes
	})
	return false, gone || !same, nil
}

// commitFiles replaces files in one commit to the version of the table that was read.
func (t *Target) commitFiles(ctx context.Context, tbl *table.Table, plan *mergePlan) error {
	tx := onceOnly(t.catalog, tbl).NewTransaction()
	if err := tx.AssertRefSnapshotID(table.MainBranch); err != nil {
		return err
	}
	if err := tx.AssertDefaultShape(); err != nil {
		return err
	}
	rewrite := tx.NewRewrite(iceberglib.Properties{mergedKey: strconv.Itoa(len(plan.sources))})
	for _, d := range plan.sources {
		rewrite.DeleteFile(d)
	}
	for _, d := range plan.merged {
		rewrite.AddDataFile(d)
	}
	if err := rewrite.Commit(ctx); err != nil {
		return err
	}
	if tbl.Properties()[table.DefaultNameMappingKey] == "" { // the library adds a mapping, which would be wrong after a change of the columns
		if err := tx.RemoveProperties([]string{table.DefaultNameMappingKey}); err != nil {
			return err
		}
	}
	_, err := tx.Commit(ctx)
	return err
}
