package platform

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/forebay/forebay/storageapi"
)

// storageNode is the node of a configuration that maps tables. Its objects are empty arrays where a client has no other
// way to write an empty one.
type storageNode struct {
	Input  storageapi.Optional[inputNode]  `json:"input"`
	Output storageapi.Optional[outputNode] `json:"output"`
}

type inputNode struct {
	Tables []inputMapping `json:"tables"`
}

type outputNode struct {
	Tables        []outputMapping `json:"tables"`
	DefaultBucket string          `json:"default_bucket"`
}

type inputMapping struct {
	Source        string           `json:"source"`
	Destination   string           `json:"destination"`
	Columns       []string         `json:"columns"`
	WhereColumn   string           `json:"where_column"`
	WhereOperator string           `json:"where_operator"`
	WhereValues   []storageapi.ID  `json:"where_values"` // text or numbers
	ChangedSince  string           `json:"changed_since"`
	Limit         storageapi.IntID `json:"limit"` // a number, or the text of one
}

type outputMapping struct {
	Source      string   `json:"source"`
	Destination string   `json:"destination"`
	Incremental bool     `json:"incremental"`
	PrimaryKey  []string `json:"primary_key"`
	Delimiter   string   `json:"delimiter"`
	Enclosure   string   `json:"enclosure"`
}

// Inputs are the names of the tables of the input mapping, for [Run.OpenInput].
func (r *Run) Inputs() []string {
	var names []string
	for _, m := range r.input.Tables {
		names = append(names, m.name())
	}
	return names
}

func (m inputMapping) name() string {
	if m.Destination != "" {
		return m.Destination
	}
	return m.Source
}

// OpenInput returns a table of the input mapping, by its destination name, as CSV with a header. The caller closes
// the reader. ctx bounds the reading as well.
func (r *Run) OpenInput(ctx context.Context, name string) (io.ReadCloser, error) {
	at := slices.IndexFunc(r.input.Tables, func(m inputMapping) bool { return m.name() == name })
	if at < 0 {
		return nil, UserError(fmt.Errorf("input mapping has no table %q", name))
	}
	m := r.input.Tables[at]
	table, err := r.Client.Table(ctx, m.Source)
	if err != nil {
		return nil, err
	}
	columns := m.Columns
	if len(columns) == 0 {
		columns = table.Columns
	}
	q := storageapi.RowQuery{Columns: columns, Limit: int(m.Limit), ChangedSince: m.ChangedSince}
	if m.WhereColumn != "" {
		filter := storageapi.Filter{Column: m.WhereColumn, Operator: cmp.Or(m.WhereOperator, "eq")}
		for _, value := range m.WhereValues {
			filter.Values = append(filter.Values, string(value))
		}
		q.Filters = []storageapi.Filter{filter}
	}
	id, err := r.Client.ExportTable(ctx, m.Source, storageapi.Export{RowQuery: q})
	if err != nil {
		return nil, err
	}
	file, err := r.Client.Download(ctx, id)
	if err != nil {
		return nil, err
	}
	rows, err := file.OpenSlices(ctx)
	if err != nil {
		return nil, err
	}
	r.inputs = append(r.inputs, usedTable(table))
	header := appendRow(nil, asCells(columns)) // an export has none
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(header), rows), rows}, nil
}

func usedTable(t *storageapi.Table) storageapi.QueueTable {
	return storageapi.QueueTable{ID: t.ID, Name: t.Name, DisplayName: t.DisplayName, Columns: storageapi.TextColumns(t.Columns...)}
}

// output is a table that a component writes.
type output struct {
	table      OutputTable
	name, path string
	f          *os.File
	*bufio.Writer
	closed bool
}

func (o *output) Close() error {
	if o.closed {
		return nil
	}
	o.closed = true
	return errors.Join(o.Flush(), o.f.Close())
}

// OutputTable says where a table goes that the output mapping of the configuration does not name.
type OutputTable struct {
	// Destination is the id of the table. Default: a table of the same name in the default bucket.
	Destination string
	// Incremental adds the rows. Without it they replace the existing rows.
	Incremental bool
	// PrimaryKey are the columns of the key, when the table is created.
	PrimaryKey []string
}

// CreateOutput begins an output table, which is written as CSV with a header. When Run has returned nil the output
// mapping puts it into the table that the configuration names for it, or into the component's default bucket. It is
// closed then if it was not before.
func (r *Run) CreateOutput(name string) (io.WriteCloser, error) {
	return r.CreateOutputTable(name, OutputTable{})
}

// CreateOutputTable is CreateOutput with a place for the table, for when the configuration names none.
func (r *Run) CreateOutputTable(name string, table OutputTable) (io.WriteCloser, error) {
	if !validID(name) || strings.HasPrefix(name, ".") {
		return nil, UserError(fmt.Errorf("output table %q: want a name of a file", name))
	}
	if slices.ContainsFunc(r.outputs, func(o *output) bool { return o.name == name }) {
		return nil, UserError(fmt.Errorf("output table %q is there twice", name))
	}
	path := filepath.Join(r.dir, fmt.Sprintf("out-%d.csv", len(r.outputs)))
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	o := &output{name: name, table: table, path: path, f: f, Writer: bufio.NewWriter(f)}
	r.outputs = append(r.outputs, o)
	return o, nil
}

// readMappings reads the node storage of the configuration.
func (r *Run) readMappings() error {
	var nodes struct {
		Storage json.RawMessage `json:"storage"`
	}
	if err := json.Unmarshal(r.Configuration, &nodes); err != nil {
		return err
	}
	if kindOf(nodes.Storage) != '{' {
		return nil
	}
	var storage storageNode
	if err := json.Unmarshal(nodes.Storage, &storage); err != nil {
		return UserError(fmt.Errorf("node storage: %w", err))
	}
	if storage.Input.Value != nil {
		r.input = *storage.Input.Value
	}
	if storage.Output.Value != nil {
		r.output = *storage.Output.Value
	}
	return nil
}

// written records the output of a program. After a crash the import resumes from here.
type written struct {
	Row     string          `json:"row"`
	State   json.RawMessage `json:"state,omitempty"`
	Imports []tableImport   `json:"imports"`
}

// tableImport is one import of a table that a component has written. Job is the id of its storage job, taken before there
// is one. A job that is there already is not made a second time.
type tableImport struct {
	Name    string           `json:"name"`
	File    storageapi.IntID `json:"file"`
	Job     int64            `json:"job"`
	Mapping outputMapping    `json:"mapping"`
}

// planImports uploads the tables that the component has written, and lists where the configuration wants them.
func (e *execution) planImports(component *Component, run *Run) (list []tableImport, err error) {
	for _, m := range run.output.Tables {
		if !slices.ContainsFunc(run.outputs, func(o *output) bool { return o.name == m.Source }) {
			return nil, UserError(fmt.Errorf("output mapping: the component has not written a table %q", m.Source))
		}
	}
	for _, o := range run.outputs {
		places := e.places(component, run, o)
		if len(places) == 0 {
			return nil, UserError(fmt.Errorf("output mapping: there is no destination for table %q", o.name))
		}
		file, err := e.upload(run, o)
		if err != nil {
			return nil, fmt.Errorf("output mapping: table %q: %w", o.name, err)
		}
		for _, m := range places {
			job, err := e.q.s.store.ids.take()
			if err != nil {
				return nil, err
			}
			list = append(list, tableImport{Name: o.name, File: file, Job: job, Mapping: m})
		}
	}
	return list, nil
}

func (e *execution) upload(run *Run, o *output) (storageapi.IntID, error) {
	info, err := os.Stat(o.path)
	if err != nil {
		return 0, err
	}
	f, err := run.Client.Upload(e.ctx, storageapi.FilePrepare{Name: o.name, Tags: []string{"run-" + run.JobID}}, storageapi.Source{
		Size: info.Size(), Open: func() (io.ReadCloser, error) { return os.Open(o.path) },
	})
	if err != nil {
		return 0, err
	}
	return f.ID, nil
}

// importAll imports the output of a component into its tables.
func (e *execution) importAll(run *Run, left *written) error {
	for _, i := range left.Imports {
		table, err := e.importTable(run, i)
		if err != nil {
			return fmt.Errorf("output mapping: table %q: %w", i.Name, err)
		}
		e.output = append(e.output, usedTable(table))
	}
	return nil
}

// places returns the destinations of a table, which are all that the configuration names, or else the destination that the component
// or a default bucket gives.
func (e *execution) places(component *Component, run *Run, o *output) (list []outputMapping) {
	for _, m := range run.output.Tables {
		if m.Source == o.name {
			list = append(list, m)
		}
	}
	switch {
	case len(list) > 0:
		return list
	case o.table.Destination != "":
		return []outputMapping{{Destination: o.table.Destination, Incremental: o.table.Incremental, PrimaryKey: o.table.PrimaryKey}}
	case run.output.DefaultBucket != "":
		return []outputMapping{{Destination: run.output.DefaultBucket + "." + tableName(o.name)}}
	case component.Data.DefaultBucket && e.record.Config != "":
		bucket := component.Data.DefaultBucketStage + ".c-" + strings.ReplaceAll(e.record.Component, ".", "-") + "-" + e.record.Config
		return []outputMapping{{Destination: bucket + "." + tableName(o.name)}}
	}
	return nil
}

func tableName(name string) string { return strings.TrimSuffix(name, ".csv") }

func (e *execution) importTable(run *Run, i tableImport) (*storageapi.Table, error) {
	begun, err := viewed(e.q.s.store, func(tx *txn) (bool, error) { return tx.has(jobKey(i.Job)), nil })
	if err == nil && !begun {
		err = e.startImport(run.Client, i)
	} else if err == nil {
		_, err = run.Client.WaitForJob(e.ctx, storageapi.IntID(i.Job))
	}
	if err != nil {
		return nil, err
	}
	return run.Client.Table(e.ctx, i.Mapping.Destination)
}

// startImport makes the bucket, if need be, and the job of an import, and waits for the job.
func (e *execution) startImport(c *storageapi.Client, i tableImport) error {
	m := i.Mapping
	bucketID, name := bucketOf(m.Destination), m.Destination[strings.LastIndexByte(m.Destination, '.')+1:]
	stage, bucketName, ok := strings.Cut(bucketID, ".")
	if !ok || name == "" || strings.Contains(bucketName, ".") {
		return UserError(fmt.Errorf("destination %q: want stage.bucket.table", m.Destination))
	}
	if _, err := c.Bucket(e.ctx, bucketID); storageapi.IsNotFound(err) {
		if _, err := c.CreateBucket(e.ctx, storageapi.BucketCreate{Stage: stage, Name: strings.TrimPrefix(bucketName, "c-")}); err != nil && !storageapi.IsAlreadyExists(err) {
			return err
		}
	} else if err != nil {
		return err
	}
	_, err := c.Table(e.ctx, m.Destination)
	ctx := context.WithValue(e.ctx, newJobKey{}, i.Job)
	switch {
	case storageapi.IsNotFound(err):
		_, err = c.CreateTableFromFile(ctx, bucketID, storageapi.TableFromFile{
			Name: name, FileID: i.File, PrimaryKey: m.PrimaryKey, Delimiter: m.Delimiter, Enclosure: m.Enclosure,
		})
	case err == nil:
		_, err = c.ImportFile(ctx, m.Destination, storageapi.Import{
			FileID: i.File, Incremental: m.Incremental, Delimiter: m.Delimiter, Enclosure: m.Enclosure,
		})
	}
	return err
}
