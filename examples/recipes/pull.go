package recipes

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/extractor"
	"github.com/forebay/forebay/extractor/feed"
)

// Pull runs a configuration of the extractor once and stores each page at the source that has the name of its data type. The state is in a
// file. The next run asks for new records, and a run after a crash resumes after the last page that is on disk.
func Pull(ctx context.Context, eng *forebay.Engine, cfg *extractor.Config, stateFile string) error {
	var state extractor.State
	text, err := os.ReadFile(stateFile)
	if err == nil {
		err = json.Unmarshal(text, &state)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	save := func(_ context.Context, s extractor.State) error { return saveState(stateFile, s) }
	sourceOf := func(_ context.Context, dataType string) (string, error) { return dataType, nil }
	state, err = extractor.Run(ctx, cfg, state, extractor.Options{Emit: feed.Into(eng, sourceOf), Checkpoint: save})
	return errors.Join(err, saveState(stateFile, state))
}

// saveState replaces the file as a whole. It may contain tokens of the API, so no other user may read it.
func saveState(name string, state extractor.State) error {
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(name+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// Every calls pull now and then once an interval, until ctx ends. A run that fails is repeated at the next one.
func Every(ctx context.Context, interval time.Duration, log *slog.Logger, pull func(context.Context) error) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		if err := pull(ctx); err != nil && ctx.Err() == nil {
			log.Error("pull failed", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
