package drivers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/internal/keylock"
	"github.com/forebay/forebay/storageapi"
)

// TargetOptions configure a [Target].
type TargetOptions struct {
	// Staging, if not nil, is where the buffer keeps its slices: they are then imported where they are when that can
	// be done.
	Staging *Staging
	// Tokens, if not nil, has a token for each sink. A [TokenStore] has them made and renewed by the target.
	Tokens TokenSource
	// TempDir holds the copy of a slice while it is uploaded to its own file. Default: the system's.
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

	locks keylock.Locks // by sink: held while its token is made
	noted sync.Map      // see note
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
	o.Logger = logger(o.Logger)
	store, _ := o.Tokens.(TokenStore)
	return &Target{client: client, opts: o, store: store}, nil
}

// classify marks the errors that need someone to fix the cause.
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
	if len(f.Progress) > 0 {
		if err := json.Unmarshal(f.Progress, &p); err != nil {
			return fmt.Errorf("storage api target: import %s into %q: the note of the earlier attempt cannot be read: %w", f.ID, f.Table.ID, err)
		}
	}
	client, err := t.sinkClient(ctx, f)
	if err == nil {
		err = t.importFile(ctx, client, f, &p)
	}
	if isRefused(err) && t.opts.Tokens != nil {
		// The token of the sink, or the bucket that it may write, was deleted or refreshed.
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
	there := p.File != 0
	if there {
		_, err := client.File(ctx, p.File)
		there = err == nil
	}
	if !there {
		if err := t.stage(ctx, client, f, p); err != nil {
			return err
		}
	}
	p.Asked, p.Since = true, time.Now().Add(-clockSkew).UTC().Truncate(time.Second)
	if err := save(ctx, f, *p); err != nil {
		return err
	}
	job, err := client.WithRunID(f.ID).StartImport(ctx, f.Table.ID, storageapi.Import{
		FileID: p.File, Incremental: true, WithoutHeaders: true, Columns: f.Table.Names(),
	})
	if err != nil {
		return err
	}
	p.Job = job.ID
	return save(ctx, f, *p)
}

// await waits for the job of an import, and deletes the file that was made for it.
func (t *Target) await(ctx context.Context, client *storageapi.Client, p progress) error {
	_, err := client.WaitForJob(ctx, p.Job)
	if err == nil && p.Own {
		t.discard(ctx, client, p.File)
	}
	return err
}

// discard deletes a file of the project that is no longer needed.
func (t *Target) discard(ctx context.Context, client *storageapi.Client, id storageapi.IntID) {
	if err := client.DeleteFile(ctx, id); err != nil {
		t.opts.Logger.Warn("storage api target: a file could not be deleted, it expires by itself", "file", id, "error", err)
	}
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
	if err := t.copySlices(ctx, f, file); err != nil {
		t.discard(context.WithoutCancel(ctx), client, file.ID())
		return err
	}
	*p = progress{File: file.ID(), Own: true}
	return nil
}
