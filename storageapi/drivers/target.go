package drivers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/tidwall/gjson"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/storageapi"
)

// TargetOptions configure a [Target].
type TargetOptions struct {
	// Staging, if not nil, is where the buffer keeps its slices: they are then imported where they are when that can
	// be done.
	Staging *Staging
	// Tokens, if not nil, has a token for each sink. A [TokenStore] has them made and renewed by the target.
	Tokens TokenSource
	// TempDir is for the copy of a slice while it is uploaded to a file of its own; the default is that of the system.
	TempDir string
	// Logger hears of what could not be tidied up; the default is silence.
	Logger *slog.Logger
}

// Target is a [buffer.Target] on tables of the project. It imports at least once, see the package comment. It is safe
// for concurrent use.
type Target struct {
	client *storageapi.Client
	opts   TargetOptions
	store  TokenStore // nil when tokens are made elsewhere

	mu    sync.Mutex             // guards the maps
	locks map[string]*sync.Mutex // by sink: held while its token is made
	noted map[string]struct{}    // see note
}

var (
	_ buffer.Target    = (*Target)(nil)
	_ buffer.Uncreator = (*Target)(nil)
)

// NewTarget returns a target. It makes no call. The client's token must be able to make buckets and tokens, unless those
// are there already.
func NewTarget(client *storageapi.Client, o TargetOptions) (*Target, error) {
	if client == nil {
		return nil, errors.New("storage api target: options: the client is nil")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	store, _ := o.Tokens.(TokenStore)
	return &Target{client: client, opts: o, store: store, locks: make(map[string]*sync.Mutex), noted: make(map[string]struct{})}, nil
}

var tableID = regexp.MustCompile(`^(in|out)\.([A-Za-z0-9_-]{1,96})\.([A-Za-z0-9_-]{1,96})$`)

// splitTable returns the parts of the id of a table.
func splitTable(id string) (stage, bucket, table string, err error) {
	m := tableID.FindStringSubmatch(id)
	if m == nil {
		return "", "", "", buffer.Permanent(fmt.Errorf(`table id %.120q: want "in" or "out", the name of a bucket and that of a table, joined by dots`, id))
	}
	return m[1], m[2], m[3], nil
}

// classify marks the errors that a retry alone cannot mend.
func classify(err error) error {
	var e *storageapi.Error
	if errors.As(err, &e) && e.Status >= 400 && e.Status < 500 {
		switch e.Status {
		case 404, 408, 409, 423, 429:
			return err
		}
		return buffer.Permanent(err)
	}
	var failed *storageapi.JobError
	if errors.As(err, &failed) && strings.HasPrefix(failed.Code(), "csvImport.") {
		return buffer.Permanent(err) // the bytes or the columns are refused
	}
	return err
}

// Ensure implements [buffer.Target]. It makes the bucket and the table, of text columns without a key, if they are
// absent.
func (t *Target) Ensure(ctx context.Context, table buffer.Table) error {
	if err := t.ensure(ctx, t.client, table); err != nil {
		return fmt.Errorf("storage api target: ensure %q: %w", table.ID, classify(err))
	}
	return nil
}

func (t *Target) ensure(ctx context.Context, client *storageapi.Client, table buffer.Table) error {
	stage, bucket, name, err := splitTable(table.ID)
	if err != nil {
		return err
	}
	found, err := client.Table(ctx, table.ID)
	if err == nil {
		return compare(table, found.Columns)
	}
	if !storageapi.IsNotFound(err) {
		return err
	}
	if err := t.ensureBucket(ctx, stage, bucket); err != nil {
		return err
	}
	columns := storageapi.TextColumns(table.Columns...)
	if table.Creation != "" {
		client = client.WithRunID(table.Creation) // by which Uncreate finds the job
	}
	_, err = client.CreateTable(ctx, stage+"."+bucket, storageapi.TableCreate{Name: name, Columns: columns})
	if err == nil {
		return nil
	}
	// Somebody else may have been first.
	if found, ferr := client.Table(ctx, table.ID); ferr == nil {
		return compare(table, found.Columns)
	}
	return err
}

// Uncreate implements [buffer.Uncreator]. The mark of a table is the run id of the job that has made it. The bucket stays.
func (t *Target) Uncreate(ctx context.Context, tableID, creation string) error {
	if err := t.uncreate(ctx, tableID, creation); err != nil {
		return fmt.Errorf("storage api target: take back %q: %w", tableID, classify(err))
	}
	return nil
}

func (t *Target) uncreate(ctx context.Context, tableID, creation string) error {
	table, err := t.client.Table(ctx, tableID)
	switch {
	case storageapi.IsNotFound(err):
		return nil
	case err != nil || table.RowsCount > 0 || creation == "":
		return err
	}
	for job, err := range t.client.Jobs(ctx, storageapi.JobQuery{CreatedFrom: table.Created.Add(-clockSkew)}) {
		if err != nil {
			return err
		}
		if !strings.HasSuffix(job.OperationName, "Create") || gjson.GetBytes(job.Results, "id").String() != tableID {
			continue
		}
		if job.RunID == nil || *job.RunID != creation {
			return nil // the newest job that made a table of the name is somebody else's
		}
		if err := t.client.DeleteTable(ctx, tableID, false); !storageapi.IsNotFound(err) {
			return err
		}
		return nil
	}
	return nil
}

// ensureBucket makes a bucket with the client's own token, if it is absent.
func (t *Target) ensureBucket(ctx context.Context, stage, bucket string) error {
	_, err := t.client.Bucket(ctx, stage+"."+bucket)
	if !storageapi.IsNotFound(err) {
		return err
	}
	// Most stacks put "c-" in front of the name that they are given.
	index, err := t.client.Services(ctx)
	if err != nil {
		return err
	}
	name := bucket
	if !slices.Contains(index.Features, storageapi.FeatureNoBucketPrefix) {
		var prefixed bool
		if name, prefixed = strings.CutPrefix(bucket, "c-"); !prefixed {
			return buffer.Permanent(fmt.Errorf("the bucket %q is absent and cannot be made: names of new buckets begin with \"c-\" on this stack", stage+"."+bucket))
		}
	}
	_, err = t.client.CreateBucket(ctx, storageapi.BucketCreate{Stage: stage, Name: name})
	if storageapi.IsAlreadyExists(err) {
		_, err = t.client.Bucket(ctx, stage+"."+bucket)
	}
	return err
}

func compare(table buffer.Table, got []string) error {
	if slices.Equal(table.Columns, got) {
		return nil
	}
	return &buffer.SchemaError{Table: table.ID, Want: slices.Clone(table.Columns), Got: got}
}

// progress is the note of an import.
type progress struct {
	// File is the file of the project. Own says that it was made for this import alone.
	File storageapi.IntID `json:"file,omitempty"`
	Own  bool             `json:"own,omitempty"`
	// Asked says that an import of File may have been asked for, at a time not before Since.
	Asked bool      `json:"asked,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Job is the job that was answered.
	Job storageapi.IntID `json:"job,omitempty"`
}

// Import implements [buffer.Target], at least once.
func (t *Target) Import(ctx context.Context, f *buffer.File) error {
	// Both attempts go on from one note: what the first one has asked for, the second one waits for.
	var p progress
	err := loadProgress(f, &p)
	var client *storageapi.Client
	if err == nil {
		client, err = t.sinkClient(ctx, f)
	}
	if err == nil {
		err = t.importFile(ctx, client, f, &p)
	}
	if isRefused(err) && t.opts.Tokens != nil {
		// Somebody has deleted or refreshed the token of the sink, or the bucket that it may write.
		if client = t.client; t.store != nil {
			client, err = t.renew(ctx, f.SinkID, f.Table.ID, true)
		}
		if client != nil {
			err = t.importFile(ctx, client, f, &p)
		}
	}
	if err != nil {
		return fmt.Errorf("storage api target: import %s into %q: %w", f.ID, f.Table.ID, classify(err))
	}
	t.note(ctx, client, f)
	return nil
}

// isRefused reports whether err is an answer that a call would not get with a good token of the sink.
func isRefused(err error) bool {
	var e *storageapi.Error
	return storageapi.IsUnauthorized(err) || errors.As(err, &e) && e.Status == http.StatusForbidden
}

// loadProgress reads the note of the earlier attempt, if there was one.
func loadProgress(f *buffer.File, p *progress) error {
	if len(f.Progress) == 0 {
		return nil
	}
	if err := json.Unmarshal(f.Progress, p); err != nil {
		return fmt.Errorf("the note of the earlier attempt cannot be read: %w", err)
	}
	return nil
}

// importFile goes on with an import from where p says that it is.
func (t *Target) importFile(ctx context.Context, client *storageapi.Client, f *buffer.File, p *progress) error {
	if err := t.ensure(ctx, client, f.Table); err != nil {
		return err
	}
	done, err := t.resume(ctx, client, f, p)
	if err != nil || done {
		return err
	}
	if err := t.begin(ctx, client, f, p); err != nil {
		return err
	}
	err = t.await(ctx, client, *p)
	var failed *storageapi.JobError
	if errors.As(err, &failed) && strings.EqualFold(failed.Code(), "csvImport.columnsNotMatch") {
		// The table was changed after it was looked at.
		if found, terr := client.Table(ctx, f.Table.ID); terr == nil {
			if schema := compare(f.Table, found.Columns); schema != nil {
				return schema
			}
		}
	}
	return err
}

// resume looks for what became of an earlier attempt. If it failed p is set back to where a new one begins.
func (t *Target) resume(ctx context.Context, client *storageapi.Client, f *buffer.File, p *progress) (done bool, err error) {
	if p.Asked && p.Job == 0 {
		if p.Job, err = findJob(ctx, client, f.ID, *p); err != nil {
			return false, err
		}
		if p.Job != 0 {
			if err := save(ctx, f, *p); err != nil {
				return false, err
			}
		}
	}
	if p.Job == 0 {
		return false, nil
	}
	err = t.await(ctx, client, *p)
	var failed *storageapi.JobError
	switch {
	case err == nil:
		return true, nil
	case errors.As(err, &failed), storageapi.IsNotFound(err):
		// The job has had no effect, or is long forgotten.
		p.Asked, p.Job = false, 0
		return false, nil
	}
	return false, err
}

// findJob looks for the job of an import that was asked for without learning its id.
func findJob(ctx context.Context, client *storageapi.Client, fileID string, p progress) (storageapi.IntID, error) {
	for job, err := range client.Jobs(ctx, storageapi.JobQuery{CreatedFrom: p.Since}) {
		if err != nil {
			return 0, err
		}
		if job.OperationName != "tableImport" || job.RunID == nil || *job.RunID != fileID {
			continue
		}
		if storageapi.IntID(gjson.GetBytes(job.OperationParams, "source.fileId").Int()) == p.File {
			return job.ID, nil
		}
	}
	return 0, nil
}

func save(ctx context.Context, f *buffer.File, p progress) error {
	note, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return f.SaveProgress(ctx, note)
}

// clockSkew is how far the clocks of both sides may differ.
const clockSkew = time.Hour

// begin asks for the import of a file of the project that has the slices, and notes the job.
func (t *Target) begin(ctx context.Context, client *storageapi.Client, f *buffer.File, p *progress) error {
	if p.File == 0 || !t.stillThere(ctx, client, p.File) {
		if err := t.stage(ctx, client, f, p); err != nil {
			return err
		}
	}
	p.Asked, p.Since = true, time.Now().Add(-clockSkew).UTC().Truncate(time.Second)
	if err := save(ctx, f, *p); err != nil {
		return err
	}
	job, err := client.WithRunID(f.ID).StartImport(ctx, f.Table.ID, storageapi.Import{
		FileID: p.File, Incremental: true, WithoutHeaders: true, Columns: f.Table.Columns,
	})
	if err != nil {
		return err
	}
	p.Job = job.ID
	return save(ctx, f, *p)
}

func (t *Target) stillThere(ctx context.Context, client *storageapi.Client, id storageapi.IntID) bool {
	_, err := client.File(ctx, id)
	return err == nil
}

// await waits for the job of an import, and deletes the file that was made for it.
func (t *Target) await(ctx context.Context, client *storageapi.Client, p progress) error {
	_, err := client.WaitForJob(ctx, p.Job)
	if err != nil {
		return err
	}
	if p.Own {
		if err := client.DeleteFile(ctx, p.File); err != nil {
			t.opts.Logger.Warn("storage api target: an imported file could not be deleted, it expires by itself", "file", p.File, "error", err)
		}
	}
	return nil
}

// stage finds or makes the file of the project that has exactly the slices of f.
func (t *Target) stage(ctx context.Context, client *storageapi.Client, f *buffer.File, p *progress) error {
	if t.opts.Staging != nil && len(f.Slices) > 0 {
		id, found, err := t.opts.Staging.inPlace(ctx, client, f.Slices)
		if err != nil {
			return err
		}
		if found {
			*p = progress{File: id}
			return nil
		}
	}
	file, err := client.UploadSliced(ctx, prepareFile(f.SinkID, f.ID+".import"))
	if err != nil {
		return err
	}
	err = t.copySlices(ctx, f, file)
	if err != nil {
		if derr := client.DeleteFile(context.WithoutCancel(ctx), file.ID()); derr != nil {
			t.opts.Logger.Warn("storage api target: an unfinished file could not be deleted, it expires by itself", "file", file.ID(), "error", derr)
		}
		return err
	}
	*p = progress{File: file.ID(), Own: true}
	return nil
}

// copySlices uploads the slices, as gzip, with a check of their rows.
func (t *Target) copySlices(ctx context.Context, f *buffer.File, file *storageapi.SlicedFile) error {
	var names []string
	for _, obj := range f.Slices {
		name := obj.ID + ".csv.gz"
		if err := t.copySlice(ctx, f, obj, name, file); err != nil {
			return fmt.Errorf("slice %s: %w", obj.ID, err)
		}
		names = append(names, name)
	}
	return file.Commit(ctx, names...)
}

func (t *Target) copySlice(ctx context.Context, f *buffer.File, obj buffer.Object, name string, file *storageapi.SlicedFile) error {
	rows, err := f.OpenRows(ctx, obj)
	if err != nil {
		return err
	}
	// The size must be known before the upload begins.
	temp, err := os.CreateTemp(t.opts.TempDir, "forebay-*.csv.gz")
	if err != nil {
		return errors.Join(err, rows.Close())
	}
	defer os.Remove(temp.Name())
	defer temp.Close()
	zw, err := gzip.NewWriterLevel(temp, gzip.BestSpeed)
	if err != nil {
		return errors.Join(err, rows.Close())
	}
	check := rowCounter{}
	_, err = io.CopyBuffer(&contextWriter{ctx, io.MultiWriter(&check, zw)}, struct{ io.Reader }{rows}, make([]byte, 128<<10))
	if cerr := rows.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = zw.Close()
	}
	if err == nil && (check.inCell || check.rows != obj.Rows) {
		err = fmt.Errorf("staging has %d whole rows, want %d", check.rows, obj.Rows)
	}
	if err != nil {
		return err
	}
	info, err := temp.Stat()
	if err != nil {
		return err
	}
	return file.Put(ctx, name, storageapi.Source{
		Size: info.Size(), Open: func() (io.ReadCloser, error) { return os.Open(temp.Name()) },
	})
}

// rowCounter counts CSV rows. A doubled quote leaves a cell and enters it again, which comes to the same.
type rowCounter struct {
	rows   int64
	inCell bool
}

func (c *rowCounter) Write(p []byte) (int, error) {
	for _, b := range p {
		switch {
		case b == '"':
			c.inCell = !c.inCell
		case b == '\n' && !c.inCell:
			c.rows++
		}
	}
	return len(p), nil
}

// sinkClient returns the client of the sink's own token, which is made if there is none, or the user's.
func (t *Target) sinkClient(ctx context.Context, f *buffer.File) (*storageapi.Client, error) {
	if t.opts.Tokens == nil {
		return t.client, nil
	}
	stage, bucket, _, err := splitTable(f.Table.ID)
	if err != nil {
		return nil, err
	}
	token, err := t.opts.Tokens.Get(ctx, f.SinkID)
	if err == nil && token.Bucket == stage+"."+bucket {
		return t.client.WithToken(token.Token), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if t.store == nil {
		return t.client, nil
	}
	return t.renew(ctx, f.SinkID, f.Table.ID, false)
}

// Renew makes a new token for a sink, with the client's own, and deletes the one before. The bucket of the table is
// made if it is absent. Call it when a sink is enabled again.
func (t *Target) Renew(ctx context.Context, sinkID, tableID string) error {
	if t.store == nil {
		return errors.New("storage api target: renew: there is no store of tokens")
	}
	if _, err := t.renew(ctx, sinkID, tableID, true); err != nil {
		return fmt.Errorf("storage api target: renew the token of sink %q: %w", sinkID, classify(err))
	}
	return nil
}

// Drop deletes the token of a sink. Call it when a sink is disabled or deleted and its files are imported.
func (t *Target) Drop(ctx context.Context, sinkID string) error {
	if t.store == nil {
		return nil
	}
	defer t.lock(sinkID)()
	old, err := t.store.Get(ctx, sinkID)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = t.deleteToken(ctx, old.ID)
	}
	if err == nil {
		err = t.store.Delete(ctx, sinkID)
	}
	if err != nil {
		return fmt.Errorf("storage api target: drop the token of sink %q: %w", sinkID, err)
	}
	return nil
}

func (t *Target) deleteToken(ctx context.Context, id storageapi.ID) error {
	err := t.client.DeleteToken(ctx, id)
	if storageapi.IsNotFound(err) {
		return nil
	}
	return err
}

// lock takes the lock of a sink and returns the function that gives it back.
func (t *Target) lock(sinkID string) func() {
	t.mu.Lock()
	l := t.locks[sinkID]
	if l == nil {
		l = &sync.Mutex{}
		t.locks[sinkID] = l
	}
	t.mu.Unlock()
	l.Lock()
	return l.Unlock
}

// renew makes a token, stores it, and only then deletes the old one. Without force a good token that somebody else has
// made meanwhile is taken.
func (t *Target) renew(ctx context.Context, sinkID, table string, force bool) (*storageapi.Client, error) {
	defer t.lock(sinkID)()
	stage, name, _, err := splitTable(table)
	if err != nil {
		return nil, err
	}
	bucket := stage + "." + name
	old, err := t.store.Get(ctx, sinkID)
	known := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if known && !force && old.Bucket == bucket {
		return t.client.WithToken(old.Token), nil
	}
	if err := t.ensureBucket(ctx, stage, name); err != nil {
		return nil, err
	}
	made, err := t.client.CreateToken(ctx, storageapi.TokenCreate{
		Description:       "[_internal] Stream Sink " + sinkID,
		BucketPermissions: map[string]string{bucket: "write"}, CanReadAllFileUploads: true,
	})
	if err != nil {
		return nil, err
	}
	if err := t.store.Put(ctx, sinkID, SinkToken{made.ID, made.Token, bucket}); err != nil {
		return nil, errors.Join(err, t.deleteToken(context.WithoutCancel(ctx), made.ID))
	}
	if known {
		if err := t.deleteToken(ctx, old.ID); err != nil {
			t.opts.Logger.Warn("storage api target: the old token of a sink could not be deleted", "sink", sinkID, "token", old.ID, "error", err)
		}
	}
	return t.client.WithToken(made.Token), nil
}
