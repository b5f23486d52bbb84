package platform_test

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/storageapi"
)

// moved has the files and table changes acknowledged by a server that is killed again and again.
type moved struct {
	mu sync.Mutex
	// files are the seeds of the uploads, by file, and slices are the seeds of sliced files whose manifest was written.
	files   map[storageapi.IntID]uint64
	slices  map[storageapi.IntID][]uint64
	imports []storageapi.IntID // jobs of numbered imports into the table with a key
	exports []storageapi.IntID
	// appended are the jobs of imports of one row into a table without a key, by the number in the row. So many small parts are
	// merged all the time.
	appended   map[int]storageapi.IntID
	nextAppend int
	next       int // number of the next import
}

// body is a few megabytes that are the same for the same seed.
func body(seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 0))
	data := make([]byte, 1<<20+rng.IntN(3<<20))
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	return data
}

// SIGKILL in the middle of uploads, imports and exports. Acknowledged data is there as a whole, jobs continue to their
// end, and nothing else is left on disk.
func TestKilledDuringTransfers(t *testing.T) {
	dir := t.TempDir()
	m := &moved{files: make(map[storageapi.IntID]uint64), slices: make(map[storageapi.IntID][]uint64), appended: make(map[int]storageapi.IntID)}
	c := startAndKill(t, dir, 5, time.Second, func(c *child) {
		_, err := c.client.CreateTable(t.Context(), "in.c-k", storageapi.TableCreate{Name: "t", PrimaryKey: []string{"id"}, Columns: storageapi.TextColumns("id", "n", "pad")})
		check(t, err)
		_, err = c.client.CreateTable(t.Context(), "in.c-k", storageapi.TableCreate{Name: "log", Columns: storageapi.TextColumns("n")})
		check(t, err)
	}, func(ctx context.Context, group *sync.WaitGroup, c *child, rng *rand.Rand) {
		whole, sliced := rng.Uint64(), rng.Uint64()
		group.Go(func() { m.upload(ctx, c, whole) })
		group.Go(func() { m.uploadSliced(ctx, c, sliced) })
		group.Go(func() { m.load(ctx, c) })
		group.Go(func() { m.export(ctx, c) })
		group.Go(func() { m.append(ctx, c) })
	})
	m.verify(t, c)
	m.verifyAppended(t, c)
	t.Logf("%d files, %d sliced ones, %d imports, %d rows, %d exports were acknowledged", len(m.files), len(m.slices), len(m.imports), len(m.appended), len(m.exports))
	c.kill()

	// The next opening has removed unfinished files.
	for _, path := range append(filesBelow(t, dir+"/files"), filesBelow(t, dir+"/tables")...) {
		if strings.Contains(path, "/.tmp-") {
			t.Errorf("%s is left", path)
		}
	}
}

func (m *moved) upload(ctx context.Context, c *child, seed uint64) {
	for ; ; seed++ {
		f, err := c.client.Upload(ctx, storageapi.FilePrepare{Name: "f"}, storageapi.BytesSource(body(seed)))
		if err != nil {
			return
		}
		m.mu.Lock()
		m.files[f.ID] = seed
		m.mu.Unlock()
	}
}

func (m *moved) uploadSliced(ctx context.Context, c *child, seed uint64) {
	for {
		f, err := c.client.UploadSliced(ctx, storageapi.FilePrepare{Name: "s"})
		if err != nil {
			return
		}
		var names []string
		var seeds []uint64
		for i := range 3 {
			seed++
			names, seeds = append(names, fmt.Sprintf("dir/%d", i)), append(seeds, seed)
			if f.Put(ctx, names[i], storageapi.BytesSource(body(seed))) != nil || f.Commit(ctx, names...) != nil {
				return
			}
			m.mu.Lock()
			m.slices[f.ID()] = append([]uint64(nil), seeds...)
			m.mu.Unlock()
		}
	}
}

const keysOfImport = 3000

// load makes imports that replace all rows of the one before and add some. Import n has the keys below
// (n+1)*keysOfImport/10, and its number in each row.
func (m *moved) load(ctx context.Context, c *child) {
	pad := strings.Repeat("x", 100)
	for {
		m.mu.Lock()
		n := m.next
		m.next++
		m.mu.Unlock()
		var rows strings.Builder
		rows.WriteString("id,n,pad\n")
		for id := range (n + 1) * keysOfImport / 10 {
			fmt.Fprintf(&rows, "%d,%d,%s\n", id, n, pad)
		}
		f, err := c.client.Upload(ctx, storageapi.FilePrepare{Name: "f"}, storageapi.BytesSource([]byte(rows.String())))
		if err != nil {
			return
		}
		job, err := c.client.StartImport(ctx, "in.c-k.t", storageapi.Import{FileID: f.ID, Incremental: true})
		if err != nil {
			return
		}
		m.mu.Lock()
		m.imports = append(m.imports, job.ID)
		m.mu.Unlock()
	}
}

func (m *moved) append(ctx context.Context, c *child) {
	for {
		m.mu.Lock()
		n := m.nextAppend
		m.nextAppend++
		m.mu.Unlock()
		f, err := c.client.Upload(ctx, storageapi.FilePrepare{Name: "f"}, storageapi.BytesSource([]byte(strconv.Itoa(n)+"\n")))
		if err != nil {
			return
		}
		job, err := c.client.StartImport(ctx, "in.c-k.log", storageapi.Import{FileID: f.ID, Incremental: true, WithoutHeaders: true})
		if err != nil {
			return
		}
		m.mu.Lock()
		m.appended[n] = job.ID
		m.mu.Unlock()
	}
}

// verifyAppended checks that the rows of acknowledged imports are there once, in their order, whatever was merged when.
func (m *moved) verifyAppended(t *testing.T, c *child) {
	t.Helper()
	for _, id := range m.appended {
		_, err := c.client.WaitForJob(t.Context(), id)
		check(t, err)
	}
	id, err := c.client.ExportTable(t.Context(), "in.c-k.log", storageapi.Export{})
	check(t, err)
	f, err := c.client.Download(t.Context(), id)
	check(t, err)
	rc, err := f.OpenSlices(t.Context())
	check(t, err)
	defer rc.Close()
	rows, err := csv.NewReader(rc).ReadAll()
	check(t, err)
	last, found := -1, 0
	for _, row := range rows {
		n, err := strconv.Atoi(row[0])
		check(t, err)
		if n <= last {
			t.Errorf("row %d comes after row %d", n, last)
		}
		if last = n; m.appended[n] != 0 {
			found++
		}
	}
	if found != len(m.appended) {
		t.Errorf("%d rows of acknowledged imports are there, want %d", found, len(m.appended))
	}
}

func (m *moved) export(ctx context.Context, c *child) {
	for {
		id, err := c.client.ExportTable(ctx, "in.c-k.t", storageapi.Export{Gzip: false})
		if err != nil {
			return
		}
		m.mu.Lock()
		m.exports = append(m.exports, id)
		m.mu.Unlock()
	}
}

func (m *moved) verify(t *testing.T, c *child) {
	t.Helper()
	read := func(open func() (io.ReadCloser, error)) string {
		rc, err := open()
		check(t, err)
		defer rc.Close()
		data, err := io.ReadAll(rc)
		check(t, err)
		return string(data)
	}
	for id, seed := range m.files {
		f, err := c.client.Download(t.Context(), id)
		check(t, err)
		if read(func() (io.ReadCloser, error) { return f.Open(t.Context()) }) != string(body(seed)) {
			t.Errorf("file %d has other bytes", id)
		}
	}
	for id, seeds := range m.slices {
		f, err := c.client.Download(t.Context(), id)
		check(t, err)
		names, err := f.Slices(t.Context())
		if errors.Is(err, fs.ErrNotExist) || len(names) < len(seeds) {
			t.Errorf("file %d has slices %q, %d were acknowledged: %v", id, names, len(seeds), err)
			continue
		}
		check(t, err)
		for i, seed := range seeds {
			if read(func() (io.ReadCloser, error) { return f.OpenSlice(t.Context(), names[i]) }) != string(body(seed)) {
				t.Errorf("slice %d of file %d has other bytes", i, id)
			}
		}
	}
	for job, err := range c.client.Jobs(t.Context(), storageapi.JobQuery{}) {
		check(t, err)
		if _, err := c.client.WaitForJob(t.Context(), job.ID); err != nil {
			t.Error(err)
		}
	}
	for _, id := range m.imports {
		_, err := c.client.WaitForJob(t.Context(), id)
		check(t, err)
	}
	// Each row has the number of the last import of its key. Imports of one table come one after the other.
	whole := func(what, text string) (last int) {
		last = -1
		rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
		check(t, err)
		seen := make(map[string]int)
		for _, row := range rows {
			n, err := strconv.Atoi(row[1])
			check(t, err)
			if _, twice := seen[row[0]]; twice {
				t.Errorf("%s has the key %s twice", what, row[0])
			}
			seen[row[0]] = n
			last = max(last, n)
		}
		for key, n := range seen {
			if n != last {
				t.Errorf("%s: key %s is of import %d, the last one is %d, want %v", what, key, n, last, last)
				break
			}
		}
		if want := (last + 1) * keysOfImport / 10; len(seen) != want && len(seen) > 0 {
			t.Errorf("%s has %d keys, want %d", what, len(seen), want)
		}
		return last
	}
	for _, id := range m.exports {
		f, err := c.client.Download(t.Context(), id)
		check(t, err)
		whole(fmt.Sprintf("export %d", id), read(func() (io.ReadCloser, error) { return f.OpenSlices(t.Context()) }))
	}
	id, err := c.client.ExportTable(t.Context(), "in.c-k.t", storageapi.Export{})
	check(t, err)
	f, err := c.client.Download(t.Context(), id)
	check(t, err)
	last := whole("the table", read(func() (io.ReadCloser, error) { return f.OpenSlices(t.Context()) }))
	if len(m.imports) > 0 && last < len(m.imports)-1 {
		t.Errorf("the last import in the table is %d, %d were acknowledged", last, len(m.imports))
	}
}
