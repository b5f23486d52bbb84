package platform

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/forebay/forebay/driverkit/textcut"
	"github.com/forebay/forebay/storageapi"
)

const (
	maxPreview     = 1000
	maxPreviewCell = 16 << 10
)

func (c *request) preview() (any, error) {
	in := c.queryInput()
	sel := readSelection(in)
	sel.Limit = cmp.Or(sel.Limit, 100)
	if sel.Limit > maxPreview {
		in.fail("limit", "want at most %d", maxPreview)
	}
	format := in.textOr("format", "rfc")
	if format != "rfc" && format != "json" {
		in.fail("format", "want rfc or json")
	}
	if err := c.fault(); err != nil {
		return nil, err
	}
	if id := c.r.PathValue("table"); !c.token.mayRead(bucketOf(id)) {
		return nil, accessDenied("table %q", cut(id, 250))
	}
	t, list, release, err := c.s.parts.acquire(c.s.store, c.branch, c.r.PathValue("table"))
	if err != nil {
		return nil, err
	}
	defer release()
	if err := sel.check(t); err != nil {
		return nil, err
	}
	names := sel.names(t)
	var text []byte
	rows := [][]storageapi.PreviewCell{}
	if format == "rfc" {
		text = appendRow(nil, asCells(names))
	}
	err = c.s.eachSelected(t, list, sel, c.r.Context().Err, func(cells [][]byte) error {
		if format == "rfc" {
			text = appendRow(text, cells)
			return nil
		}
		row := make([]storageapi.PreviewCell, len(cells))
		for i, cell := range cells {
			value := string(cell)
			if len(value) > maxPreviewCell {
				value, row[i].IsTruncated = textcut.Head(value, maxPreviewCell), true
			}
			row[i].ColumnName, row[i].Value = names[i], &value
		}
		rows = append(rows, row)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if format == "json" {
		return storageapi.PreviewRows{Columns: names, Rows: rows}, nil
	}
	return rawAnswer(func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "text/csv; charset=utf-8")
		_, _ = w.Write(text) // an error means that the client has gone
	}), nil
}

func asCells(texts []string) [][]byte {
	cells := make([][]byte, len(texts))
	for i, t := range texts {
		cells[i] = []byte(t)
	}
	return cells
}

type exportParams struct {
	Table  string    `json:"tableId"`
	Query  selection `json:"query"`
	Gzip   bool      `json:"gzip"`
	Format string    `json:"format"`
	// File is the id of the file, which is chosen before the job runs.
	File int64 `json:"file"`
}

// cachedExport remembers the file of an export, while the table stays as it was.
type cachedExport struct {
	File        int64 `json:"file"`
	Incarnation int64 `json:"incarnation"`
	Change      int64 `json:"change"`
}

func (p exportParams) cacheKey(branch string) (string, error) {
	p.File = 0
	data, err := json.Marshal(p)
	sum := sha256.Sum256(data)
	return key("export", branch, p.Table, hex.EncodeToString(sum[:16])), err
}

func (c *request) exportTable() (any, error) {
	in := c.input(selectionCode)
	p := exportParams{Query: readSelection(in), Gzip: in.flagOr("gzip", false), Format: in.textOr("format", formatCSV)}
	if p.Format != formatCSV && p.Format != formatJSON {
		in.fail("format", "want %s or %s", formatCSV, formatJSON)
	}
	if kind := in.textOr("fileType", "csv"); kind != "csv" {
		in.fail("fileType", "want csv")
	}
	err := c.view(func(tx *txn) error {
		t, err := c.pathTable(tx, false)
		p.Table = t.ID
		if err != nil {
			return err
		}
		return p.Query.check(t)
	})
	if err != nil {
		return nil, err
	}
	p.File = c.newID()
	// An export reads one state of the table, so it need not wait for what changes the table.
	return c.startJob(jobSpec{operation: "tableExport", params: p, table: p.Table})
}

func (s *Server) tableExportJob(run *jobRun, p exportParams) error {
	t, list, release, err := s.parts.acquire(s.store, run.record.Branch, p.Table)
	if err != nil {
		return err
	}
	defer release()
	cacheKey, err := p.cacheKey(t.Branch)
	if err != nil {
		return err
	}
	var cached cachedExport
	var hit bool
	err = s.store.view(func(tx *txn) error {
		var f storedFile
		hit = tx.get(cacheKey, &cached) && cached.Incarnation == t.Incarnation && cached.Change == t.Change &&
			tx.get(fileKey(cached.File), &f) && !f.expired() && f.Creator.ID == run.record.Creator.ID
		return nil
	})
	if err != nil {
		return err
	}
	result := func(file int64) any {
		return map[string]any{"file": map[string]int64{"id": file}, "cacheHit": hit}
	}
	if hit {
		return run.finish("", func(*txn) (any, error) { return result(cached.File), nil })
	}
	unload := &unload{s: s, file: p.File, gzip: p.Gzip, format: newRowFormat(p.Format, t, p.Query.names(t)), sliceSize: s.sliceSize}
	err = s.eachSelected(t, list, p.Query, run.ctx.Err, unload.row)
	if err == nil {
		err = unload.finish()
	}
	if err != nil {
		unload.abandon()
		return errors.Join(fmt.Errorf("export: %w", err), s.blobs.removeAll(p.File))
	}
	f := storedFile{
		ID: p.File, Branch: t.Branch, Name: t.ID + unload.format.extension, Created: now(), Size: unload.stored, RunID: run.record.RunID,
		Creator: run.record.Creator, Tags: []string{"table-export"}, Sliced: true,
	}
	f.keepFor(exportDays)
	run.record.Metrics = storageapi.JobMetrics{OutCompressed: p.Gzip, OutBytes: unload.stored, OutBytesUncompressed: unload.plain}
	return run.finish(fileLock(p.File), func(tx *txn) (any, error) {
		putFile(tx, f)
		tx.put(cacheKey, cachedExport{p.File, t.Incarnation, t.Change})
		return result(p.File), nil
	})
}
