package extractor

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay/forebay/driverkit/warnlog"
	"github.com/forebay/forebay/extractor/internal/flatten"
	"github.com/forebay/forebay/extractor/internal/tree"
)

// Tables makes CSV tables of records. Fields of objects become columns, lists become separate tables, linked by the
// column JSON_parentId. The columns of a table are the union over all its rows, so nothing can be written before all
// pages are there: Tables keeps them in a temporary file, and its memory does not grow with the number of records.
//
// Give [Tables.Add] to Options.Emit, and call [Tables.Save] when the run has succeeded. A Tables is not safe for
// concurrent use. [RunTables] does all of it.
type Tables struct {
	log   *slog.Logger
	sets  map[string]*bucketSet
	order []string

	file  *os.File
	w     *bufio.Writer
	frame []byte
	pages int
	// size is the length of the file including the bytes in w. spool is true when the file stays until the tables are written.
	size  int64
	spool bool
	// void has the places of pages in the file that count as never emitted.
	void map[int]bool
	// unnamed is true when the temporary file no longer has a name.
	unnamed bool
	err     error // of the temporary file, after which nothing more can be saved
}

// workPattern is the name of the folders in which tables are written before they get their names.
const workPattern = ".extract-*"

// bucketSet is the tables with one destination.
type bucketSet struct {
	*flatten.Set
	output *output
	open   func(name string) (io.Writer, error)
	warned map[string]bool
}

// NewTables returns empty tables for the outputs of a configuration. The columns of the state come first in them, even if no row has them, and
// their tables keep the names that it has. logger gets warnings about lists in lists. For nil, [slog.Default] gets them. Close must be called.
func NewTables(cfg *Config, state State, logger *slog.Logger) (*Tables, error) {
	t, err := emptyTables(cfg, state, logger)
	if err != nil {
		return nil, err
	}
	file, err := os.CreateTemp("", "extract-*.pages")
	if err != nil {
		return nil, err
	}
	// Without a name it is gone with the process, however that ends. Where a file that is open cannot lose its name,
	// Close removes it.
	t.unnamed = os.Remove(file.Name()) == nil
	t.file, t.w = file, bufio.NewWriterSize(file, 1<<16)
	return t, nil
}

// spooledTables is NewTables with a file that has a name. The pages in its first state.Spooled bytes that the checkpoint covers are reused.
func spooledTables(ctx context.Context, cfg *Config, state State, path string, logger *slog.Logger) (*Tables, error) {
	t, err := emptyTables(cfg, state, logger)
	if err != nil {
		return nil, err
	}
	if t.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	t.spool = true
	if err := t.takeUp(ctx, state.Spooled, state.Checkpoint); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	t.w = bufio.NewWriterSize(t.file, 1<<16)
	return t, nil
}

// errSpoolShort is a spool that has fewer pages than the state says.
var errSpoolShort = errors.New("the spool has fewer pages than the checkpoint")

// takeUp learns the pages in the first bytes of the file, and drops the rest. These bytes may have pages that the checkpoint does not
// cover, because it was saved between a page and the checkpoint after it, for another job, or for a new token. The run emits them again, so
// they are void here. Later checkpoints cover their numbers. Therefore these keep the list.
func (t *Tables) takeUp(ctx context.Context, size int64, cp *Checkpoint) error {
	info, err := t.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() < size {
		return errSpoolShort
	}
	if cp != nil {
		for _, place := range cp.Void {
			t.void[place] = true
		}
	}
	r, err := t.read(size)
	if err != nil {
		return err
	}
	for ; ; t.pages++ {
		p, err := t.takePage(r)
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errSpoolShort, err)
		}
		bs := t.sets[p.bucket]
		if bs == nil {
			return errSpoolShort
		}
		covered, err := cp.covers(p.origin, p.number)
		if err != nil {
			return err
		}
		if !covered {
			t.void[t.pages] = true
		}
		for range p.records {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			item, err := t.take(r)
			if err != nil {
				return fmt.Errorf("%w: %w", errSpoolShort, err)
			}
			if t.void[t.pages] {
				continue
			}
			if _, err := bs.Learn(p.dataType, item, p.extra); err != nil {
				return err // it was learnt before
			}
		}
	}
	if err := t.file.Truncate(size); err != nil {
		return err
	}
	t.size = size
	_, err = t.file.Seek(size, io.SeekStart)
	return err
}

// covers reports whether a page was emitted before the checkpoint. A page of a child is emitted before it with the page of its top-level
// job.
func (cp *Checkpoint) covers(origin string, number int64) (bool, error) {
	way := strings.SplitN(origin, "/", 4) // run, iteration, job or job@window, and of a child the page of the job and more
	if cp == nil || len(way) < 3 || way[0] == "" || way[0] != cp.Run {
		return false, errSpoolShort // it belongs to another run
	}
	jobText, windowText, _ := strings.Cut(way[2], "@")
	iteration, err1 := strconv.Atoi(way[1])
	job, err2 := strconv.Atoi(jobText)
	window, err3 := strconv.ParseInt(cmp.Or(windowText, "0"), 10, 64)
	var err4 error
	if len(way) == 4 {
		pageText, _, _ := strings.Cut(way[3], ".")
		number, err4 = strconv.ParseInt(pageText, 10, 64)
	}
	if errors.Join(err1, err2, err3, err4) != nil {
		return false, errSpoolShort
	}
	if iteration != cp.Iteration || job < cp.Job {
		return iteration <= cp.Iteration, nil
	}
	for _, pos := range append([]Checkpoint{*cp}, cp.Others...) {
		switch {
		case pos.Job != job:
		case !pos.begun():
			return false, nil
		case pos.Done:
			return true, nil
		case pos.Window != window:
			return window < pos.Window, nil
		default:
			return number <= pos.Pages, nil
		}
	}
	return false, nil
}

// sync makes the pages durable and returns their length.
func (t *Tables) sync() (int64, error) {
	if t.err == nil {
		t.err = errors.Join(t.w.Flush(), t.file.Sync())
	}
	return t.size, t.err
}

// A keptPage is the head of a page in the file. Its records follow.
type keptPage struct {
	bucket, dataType string
	extra            []tree.Member
	records          int64
	// origin and number identify the job run and the page in it, as in Page.
	origin string
	number int64
}

// A spoolReader reads the first bytes of the file.
type spoolReader struct {
	*bufio.Reader
	rest *io.LimitedReader
}

// read returns a reader of the first bytes of the file.
func (t *Tables) read(size int64) (*spoolReader, error) {
	rest := &io.LimitedReader{R: t.file, N: size}
	_, err := t.file.Seek(0, io.SeekStart)
	return &spoolReader{bufio.NewReaderSize(rest, 1<<16), rest}, err
}

func (t *Tables) takePage(r *spoolReader) (keptPage, error) {
	meta, err := t.take(r)
	if err != nil {
		return keptPage{}, err
	}
	of, _ := meta.Get("bucket")
	kind, _ := meta.Get("type")
	extra, _ := meta.Get("extra")
	count, _ := meta.Get("records")
	origin, _ := meta.Get("origin")
	number, _ := meta.Get("number")
	return keptPage{of.Str(), kind.Str(), extra.Members(), count.Int(), origin.Str(), number.Int()}, nil
}

func emptyTables(cfg *Config, state State, logger *slog.Logger) (*Tables, error) {
	logger = warnlog.Or(logger)
	t := &Tables{log: logger, sets: make(map[string]*bucketSet), void: make(map[int]bool)}
	known := tree.OfObject()
	if len(state.Columns) > 0 {
		var err error
		if known, err = tree.Parse(state.Columns); err != nil {
			return nil, fmt.Errorf("the columns of the state cannot be read: %w", err)
		}
	}
	for _, pl := range cfg.plans {
		if err := t.addSet(pl.output, known); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *Tables) addSet(out *output, known tree.Node) error {
	if t.sets[out.bucket] != nil {
		return nil
	}
	bs := &bucketSet{output: out, warned: make(map[string]bool)}
	bs.Set = flatten.NewSet(func(name string) (io.Writer, error) { return bs.open(name) })
	types, unknown := knownColumns(known, out.bucket)
	for _, path := range unknown {
		t.log.Warn("a column of the state is not understood and is left out", "column", path)
	}
	for _, name := range out.mappedTypes() { // the types of mappings come first
		types = types.Without(name)
	}
	if err := bs.Restore(types); err != nil {
		return fmt.Errorf("the columns of the state cannot be read: %w", err)
	}
	for _, name := range out.mappedTypes() {
		bs.SetLayout(name, out.mappings[name])
	}
	t.sets[out.bucket] = bs
	t.order = append(t.order, out.bucket)
	return nil
}

// Close removes the temporary file. Tables that were saved stay.
func (t *Tables) Close() error {
	err := t.file.Close()
	if !t.unnamed && !t.spool {
		err = errors.Join(err, os.Remove(t.file.Name()))
	}
	return err
}

// Add takes the records of a page that a run of the same configuration emits. The error is a *DataError when they do
// not fit the records before, for example when a field is text in one and an object in another.
func (t *Tables) Add(ctx context.Context, p *Page) error {
	if t.err != nil {
		return t.err
	}
	bs := t.sets[p.Bucket]
	if bs == nil {
		return fmt.Errorf("the page belongs to another configuration: bucket %q", p.Bucket)
	}
	for rec := range p.Records() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		nested, err := bs.Learn(p.DataType, rec.item, p.extra)
		if err != nil {
			return &DataError{Job: p.Job, Endpoint: p.endpoint, Page: p.Number, Table: flatten.SafeName(p.DataType), Err: err}
		}
		if nested && !bs.warned[p.DataType] {
			bs.warned[p.DataType] = true
			t.log.Warn("a list in a list is kept as text", "table", flatten.SafeName(p.DataType), "job", p.Job, "endpoint", p.endpoint)
		}
	}
	meta := tree.OfObject(
		tree.Member{Key: "type", Value: tree.OfString(p.DataType)}, tree.Member{Key: "bucket", Value: tree.OfString(p.Bucket)},
		tree.Member{Key: "extra", Value: tree.OfObject(p.extra...)}, tree.Member{Key: "records", Value: tree.OfInt(int64(p.Len()))},
		tree.Member{Key: "origin", Value: tree.OfString(p.origin)}, tree.Member{Key: "number", Value: tree.OfInt(int64(p.Number))},
	)
	t.keep(meta)
	for rec := range p.Records() {
		t.keep(rec.item)
	}
	t.pages++
	return t.err
}

// keep appends a value to the temporary file, first its length, then its text.
func (t *Tables) keep(n tree.Node) {
	t.frame = n.AppendJSON(t.frame[:0], tree.Exact)
	var length [binary.MaxVarintLen64]byte
	for _, b := range [][]byte{length[:binary.PutUvarint(length[:], uint64(len(t.frame)))], t.frame} {
		t.size += int64(len(b))
		if _, err := t.w.Write(b); err != nil && t.err == nil {
			t.err = err
		}
	}
}

func (t *Tables) take(r *spoolReader) (tree.Node, error) {
	length, err := binary.ReadUvarint(r)
	if err != nil {
		return tree.Node{}, err
	}
	if length > uint64(r.rest.N)+uint64(r.Buffered()) {
		return tree.Node{}, io.ErrUnexpectedEOF
	}
	t.frame = append(t.frame[:0], make([]byte, length)...)
	if _, err := io.ReadFull(r, t.frame); err != nil {
		return tree.Node{}, err
	}
	return tree.Parse(t.frame)
}

// Columns returns the value of State.Columns for the next run. After Save it has the names of all tables.
func (t *Tables) Columns() json.RawMessage {
	var members []tree.Member
	for _, bucket := range t.order {
		members = append(members, tree.Member{Key: bucket, Value: t.sets[bucket].Known()})
	}
	return tree.OfObject(members...).AppendJSON(nil, tree.Plain)
}

// Save writes the tables into a folder, which it creates. For each table it writes a CSV file, named bucket.table or table, and
// next to it a manifest with the name and ".manifest". A table that nothing was found for has no file, unless it is
// mapped. The file that the run before wrote for it, by the state, is removed. Other files in the folder stay. An error
// leaves no table half written, but may leave only some of them.
//
// Every field is in quotes, quotes in it are doubled, lines end with a newline, and the first has the column names.
func (t *Tables) Save(ctx context.Context, dir string) error {
	if t.err != nil {
		return t.err
	}
	if err := t.w.Flush(); err != nil {
		t.err = err
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	if err := removeAbandoned(dir, workPattern); err != nil {
		return err
	}
	work, err := os.MkdirTemp(dir, workPattern)
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	var files []string
	for _, bucket := range t.order {
		bs := t.sets[bucket]
		var opened []*os.File
		var writers []*bufio.Writer
		bs.open = func(name string) (io.Writer, error) {
			name = fileName(bucket, name)
			f, err := os.Create(filepath.Join(work, name))
			if err != nil {
				return nil, err
			}
			files = append(files, name, name+".manifest")
			opened, writers = append(opened, f), append(writers, bufio.NewWriter(f))
			return writers[len(writers)-1], nil
		}
		err := t.write(ctx, bucket, bs, work)
		for j, f := range opened {
			err = errors.Join(err, writers[j].Flush(), f.Close())
		}
		if err != nil {
			return err
		}
	}
	for _, name := range files {
		if err := os.Rename(filepath.Join(work, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return t.removeUnused(dir)
}

// removeUnused removes tables that the previous run wrote and that have no rows now. Otherwise their old rows would be
// loaded again with the folder.
func (t *Tables) removeUnused(dir string) error {
	for _, bucket := range t.order {
		for _, name := range t.sets[bucket].Unused() {
			for _, suffix := range []string{"", ".manifest"} {
				err := os.Remove(filepath.Join(dir, fileName(bucket, name)+suffix))
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					return err
				}
			}
		}
	}
	return nil
}

func fileName(bucket, table string) string {
	if bucket == "" {
		return table
	}
	return bucket + "." + table
}

// removeAbandoned removes folders left by a process that was killed while writing. A folder older than a day is taken for
// abandoned.
func removeAbandoned(dir, pattern string) error {
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	for _, path := range found {
		if info, statErr := os.Stat(path); statErr == nil && time.Since(info.ModTime()) > 24*time.Hour {
			err = errors.Join(err, os.RemoveAll(path))
		}
	}
	return err
}

// write reads the kept pages and writes the rows of one bucket, and its manifests.
func (t *Tables) write(ctx context.Context, bucket string, bs *bucketSet, work string) error {
	r, err := t.read(t.size)
	if err != nil {
		return err
	}
	for place := range t.pages {
		p, err := t.takePage(r)
		if err != nil {
			return err
		}
		for range p.records {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			item, err := t.take(r)
			if err != nil {
				return err
			}
			if p.bucket != bucket || t.void[place] {
				continue
			}
			if err := bs.Write(p.dataType, item, p.extra); err != nil {
				if _, ok := errors.AsType[*flatten.Error](err); ok {
					return &DataError{Table: flatten.SafeName(p.dataType), Err: err}
				}
				return err
			}
		}
	}
	tables, err := bs.Finish()
	if err != nil {
		return err
	}
	for _, table := range tables {
		name := fileName(bucket, table.Name)
		manifest := tree.OfObject()
		if bucket != "" {
			manifest = manifest.With("destination", tree.OfString("in.c-"+name))
		}
		manifest = manifest.With("incremental", tree.OfBool(bs.output.incremental))
		if len(table.PrimaryKey) > 0 {
			keys := make([]tree.Node, len(table.PrimaryKey))
			for i, k := range table.PrimaryKey {
				keys[i] = tree.OfString(k)
			}
			manifest = manifest.With("primary_key", tree.OfList(keys...))
		}
		if err := os.WriteFile(filepath.Join(work, name+".manifest"), manifest.AppendJSON(nil, tree.Escaped), 0o666); err != nil {
			return err
		}
	}
	return nil
}

// RunTables runs a configuration and writes its tables into a folder, as [Tables.Save] does. When the run fails, none
// is written. Options.Emit is called too.
//
// With Options.Spool a run that gets the checkpoint of a failed run resumes there, if the spool has its pages. Without it, a
// checkpoint in the state is ignored, because tables need all pages, and states that are saved have none. The state that is returned with an
// error has the last checkpoint, and new refresh tokens even if no state with them could be saved, so save it.
func RunTables(ctx context.Context, cfg *Config, state State, dir string, opts Options) (State, error) {
	if opts.Spool != "" {
		return runSpooled(ctx, cfg, state, dir, opts)
	}
	state.Checkpoint, state.Spooled = nil, 0 // tables need all pages
	tables, err := NewTables(cfg, state, opts.Logger)
	if err != nil {
		return state, err
	}
	defer tables.Close()
	before := state
	opts.Emit = tables.emit(opts.Emit)
	if save := opts.Checkpoint; save != nil {
		opts.Checkpoint = func(ctx context.Context, s State) error {
			s = heldBack(s, before)
			s.Checkpoint = nil // no run can resume there, because its pages are nowhere
			return save(ctx, s)
		}
	}
	state, err = Run(ctx, cfg, state, opts)
	before.Tokens = state.Tokens
	if err != nil {
		return before, err
	}
	if err := tables.Save(ctx, dir); err != nil {
		return before, err
	}
	state.Columns = tables.Columns()
	return state, nil
}

// emit adds pages before the receiver gets them.
func (t *Tables) emit(next func(context.Context, *Page) error) func(context.Context, *Page) error {
	return func(ctx context.Context, p *Page) error {
		if err := t.Add(ctx, p); err != nil || next == nil {
			return err
		}
		return next(ctx, p)
	}
}

// heldBack returns a state of a run whose tables are not written. Its positions move only when they are, because a run that cannot
// take up the spool must ask for all of it again.
func heldBack(s, before State) State {
	cp := *s.Checkpoint
	cp.Cursors, cp.Windows = s.Cursors, s.Windows
	s.Checkpoint, s.Cursors, s.Windows = &cp, before.Cursors, before.Windows
	return s
}

// runSpooled is RunTables with a spool. A state is saved after the pages before it are durable, and says how long the spool was then.
func runSpooled(ctx context.Context, cfg *Config, state State, dir string, opts Options) (State, error) {
	opts = opts.withDefaults()
	// Without a length the checkpoint is about another receiver, or no page has come yet.
	if cp := state.Checkpoint; cp == nil || cp.Config != cfg.identity || state.Spooled == 0 {
		state.Checkpoint, state.Spooled = nil, 0
	}
	before := state
	tables, err := spooledTables(ctx, cfg, state, opts.Spool, opts.Logger)
	if errors.Is(err, errSpoolShort) {
		opts.Logger.WarnContext(ctx, "the spool does not have the pages of the checkpoint, the run begins from the start")
		state.Checkpoint, state.Spooled = nil, 0
		tables, err = spooledTables(ctx, cfg, state, opts.Spool, opts.Logger)
	}
	if err != nil {
		return state, err
	}
	defer tables.Close()
	save, last := opts.Checkpoint, state
	if cp := state.Checkpoint; cp != nil {
		state.Cursors, state.Windows = cp.Cursors, cp.Windows
	}
	opts.Emit = tables.emit(opts.Emit)
	opts.Checkpoint = func(ctx context.Context, s State) error {
		size, err := tables.sync()
		if err != nil {
			return err
		}
		s = heldBack(s, before)
		s.Spooled, s.Checkpoint.Void = size, slices.Sorted(maps.Keys(tables.void))
		if err := save(ctx, s); err != nil {
			return err
		}
		last = s
		return nil
	}
	state.Spooled = 0 // the pages are taken up: Run resumes after them
	state, err = Run(ctx, cfg, state, opts)
	last.Tokens = state.Tokens
	if err != nil {
		return last, err
	}
	if err := tables.Save(ctx, dir); err != nil {
		return last, err
	}
	// The spool stays until the next run, which begins at its start, because this state may not be saved.
	state.Columns, state.Spooled = tables.Columns(), 0
	return state, nil
}
