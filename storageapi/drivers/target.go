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

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/keylock"
	"github.com/forebay/forebay/driverkit/warnlog"
	"github.com/forebay/forebay/storageapi"
)

// TargetOptions configure a [Target].
type TargetOptions struct {
	// Staging, if not nil, has the slices of the buffer. They are imported in place if possible.
	Staging *Staging
	// Tokens, if not nil, has a token for each sink. With a [TokenStore] the target makes and renews them.
	Tokens TokenSource
	// TempDir holds the copy of a slice while it is uploaded to its own file. Default: the system's.
	TempDir string
	// Logger gets what could not be cleaned up. Default: warnings and errors go to [slog.Default], and [slog.DiscardHandler] silences them.
	Logger *slog.Logger
}

// Target is a [driver.Target] on tables of the project. It imports at least once, see the package comment. It is safe
// for concurrent use.
type Target struct {
	client *storageapi.Client
	opts   TargetOptions
	store  TokenStore // nil when tokens are made elsewhere

	locks keylock.Locks // by sink, held while its token is made
	noted sync.Map      // see note
}

var (
	_ driver.Target    = (*Target)(nil)
	_ driver.Uncreator = (*Target)(nil)
)

// NewTarget returns a target. It makes no call. The client's token must be able to create buckets and tokens, unless they
// exist.
func NewTarget(client *storageapi.Client, o TargetOptions) (*Target, error) {
	if client == nil {
		return nil, errors.New("storage api target: options: the client is nil")
	}
	o.Logger = warnlog.Or(o.Logger)
	store, _ := o.Tokens.(TokenStore)
	return &Target{client: client, opts: o, store: store}, nil
}

// classify marks errors that a retry cannot cure as permanent.
func classify(err error) error {
	if e, ok := errors.AsType[*storageapi.Error](err); ok && e.Status >= 400 && e.Status < 500 {
		switch e.Status {
		case 404, 408, 409, 423, 429:
			return err
		}
		return driver.Permanent(err)
	}
	if failed, ok := errors.AsType[*storageapi.JobError](err); ok && strings.HasPrefix(failed.Code(), "csvImport.") {
		return driver.Permanent(withoutValues(failed)) // the bytes or the columns are refused
	}
	return err
}

// withoutValues returns the error of an import without its message, because a column may be secret. The message may quote a cell, for example
// a value that a typed column does not take.
func withoutValues(failed *storageapi.JobError) error {
	if strings.EqualFold(failed.Code(), columnsNotMatch) {
		return failed
	}
	hidden, failure := *failed, *failed.Job.Error
	failure.Message = "the platform refuses the rows; the job has the reason"
	hidden.Job.Error = &failure
	return &hidden
}

const columnsNotMatch = "csvImport.columnsNotMatch"

// progress is the note of an import.
type progress struct {
	// File is the file of the project. Own says that it was made for this import alone.
	File storageapi.IntID `json:"file,omitempty"`
	Own  bool             `json:"own,omitempty"`
	// Asked says that an import of File may have been requested, not before Since.
	Asked bool      `json:"asked,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Job is the job of the import, if its id is known.
	Job storageapi.IntID `json:"job,omitempty"`
}

// Import implements [driver.Target], at least once.
func (t *Target) Import(ctx context.Context, f *driver.File) error {
	// Both attempts share one note. The second waits for the first one's request.
	var p progress
	if len(f.Progress) > 0 {
		if err := json.Unmarshal(f.Progress, &p); err != nil {
			return fmt.Errorf("storage api target: import %s into %q: the note of the earlier attempt cannot be read: %w", f.ID, f.Table.ID, err)
		}
	}
	client, used, err := t.sinkClient(ctx, f)
	if err == nil {
		err = t.importFile(ctx, client, f, &p)
	}
	if isRefused(err) && t.opts.Tokens != nil {
		// The token of the sink, or the bucket that it may write, was deleted or refreshed.
		if client = t.client; t.store != nil {
			client, _, err = t.renew(ctx, f.SinkID, f.Table.ID, func(old SinkToken) bool { return old.ID != used })
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

// isRefused reports whether a call failed because the token of the sink is no longer good.
func isRefused(err error) bool {
	var e *storageapi.Error
	return storageapi.IsUnauthorized(err) || errors.As(err, &e) && e.Status == http.StatusForbidden
}

// importFile continues an import from the step that p describes.
func (t *Target) importFile(ctx context.Context, client *storageapi.Client, f *driver.File, p *progress) error {
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
	if failed, ok := errors.AsType[*storageapi.JobError](err); ok && strings.EqualFold(failed.Code(), columnsNotMatch) {
		// The table was changed after it was looked at.
		if found, terr := client.Table(ctx, f.Table.ID); terr == nil {
			if schema := compare(f.Table, found.Columns); schema != nil {
				return schema
			}
		}
	}
	return err
}

// resume finds the outcome of an earlier attempt. If that has failed, it resets p for a new one.
func (t *Target) resume(ctx context.Context, client *storageapi.Client, f *driver.File, p *progress) (done bool, err error) {
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

// findJob finds the job of an import whose request was sent and whose response was lost.
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

func save(ctx context.Context, f *driver.File, p progress) error {
	note, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return f.SaveProgress(ctx, note)
}

// clockSkew is how far the clocks of both sides may differ.
const clockSkew = time.Hour

// begin requests the import of a file of the project with the slices, and saves the id of the job.
func (t *Target) begin(ctx context.Context, client *storageapi.Client, f *driver.File, p *progress) error {
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

// await waits for the job of an import and deletes the file if it was made for this import.
func (t *Target) await(ctx context.Context, client *storageapi.Client, p progress) error {
	_, err := client.WaitForJob(ctx, p.Job)
	if err == nil && p.Own {
		t.discard(ctx, client, p.File)
	}
	return err
}

// discard deletes a file of the project. A failure is only logged.
func (t *Target) discard(ctx context.Context, client *storageapi.Client, id storageapi.IntID) {
	if err := client.DeleteFile(ctx, id); err != nil {
		t.opts.Logger.Warn("storage api target: a file could not be deleted, it expires by itself", "file", id, "error", err)
	}
}

// stage finds or makes the file of the project that has exactly the slices of f.
func (t *Target) stage(ctx context.Context, client *storageapi.Client, f *driver.File, p *progress) error {
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
