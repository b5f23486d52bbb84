package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/forebay/forebay/buffer/dir"
)

// adoption fills a node whose staging takes nothing, kills it and removes its disk, and waits until another node has moved all rows to the
// table. The servers are separate processes, so none of them is lost too.
func (b *bench) adoption(ctx context.Context, folder string) (figures map[string]float64, err error) {
	servers, natsURL, err := startServers(ctx, size, folder)
	if err != nil {
		return nil, err
	}
	defer servers.kill()
	owners, err := startAll(ctx, jobConfig{Kind: kindNode, Name: "owner", Dir: folder, URL: natsURL, Away: true})
	if err != nil {
		return nil, err
	}
	owner := owners[0]
	defer owner.Kill()
	adopters, err := startAll(ctx, jobConfig{Kind: kindNode, Name: "adopter", Dir: folder, URL: natsURL})
	if err != nil {
		return nil, err
	}
	adopter := adopters[0]
	defer adopter.Kill()
	if err := owner.ask(ctx, question{Do: "define", Number: 1}, nil); err != nil {
		return nil, err
	}
	if _, err := ask[any](ctx, processes{owner, adopter}, func(int) question { return question{Do: "knows"} }); err != nil {
		return nil, err
	}
	var rows int64
	if err := owner.ask(ctx, question{Do: "fill", Number: b.megabyte << 20}, &rows); err != nil {
		return nil, err
	}
	owner.Kill()
	killed := time.Now()
	if err := os.RemoveAll(filepath.Join(folder, "owner")); err != nil {
		return nil, err
	}
	var times adoptionTimes
	if err := adopter.ask(ctx, question{Do: "adopted"}, &times); err != nil {
		return nil, err
	}
	stored, err := countRows(folder)
	if err != nil {
		return nil, err
	}
	if stored != rows {
		return nil, fmt.Errorf("the table has %d rows, want %d", stored, rows)
	}
	var u usage
	if err := adopter.ask(ctx, question{Do: "usage"}, &u); err != nil {
		return nil, err
	}
	restored := times.First.Sub(times.Began).Seconds()
	return map[string]float64{
		"mb": float64(b.megabyte), "rows": float64(rows), "adopter_rss_mb": float64(u.Resident) / 1e6,
		"silent_s": times.Began.Sub(killed).Seconds(), "restore_s": restored, "restore_s_per_gb": restored * 1024 / float64(b.megabyte),
		"drain_s": times.Ended.Sub(times.First).Seconds(),
	}, nil
}

// adoptionTimes are the times of an adoption: when it began, when the staging got the first slice, and when all rows were in their table. The
// adopter takes them itself. An observer of the record that is slow sees only its last state.
type adoptionTimes struct{ Began, First, Ended time.Time }

// adoptions is a [slog.Handler] that sends the times of an adoption that ends, none if the instance is damaged, and leaves warnings to its embedded handler.
type adoptions struct {
	slog.Handler
	ended chan<- adoptionTimes
}

func (h adoptions) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (h adoptions) WithAttrs(attrs []slog.Attr) slog.Handler {
	return adoptions{h.Handler.WithAttrs(attrs), h.ended}
}

func (h adoptions) WithGroup(name string) slog.Handler {
	return adoptions{h.Handler.WithGroup(name), h.ended}
}

func (h adoptions) Handle(ctx context.Context, r slog.Record) error {
	switch r.Message {
	case "adopted instance drained":
		for a := range r.Attrs {
			if a.Key == "after" {
				h.ended <- adoptionTimes{Began: r.Time.Add(-a.Value.Duration()), Ended: r.Time}
			}
		}
	case "log or checkpoint of the instance lost data":
		h.ended <- adoptionTimes{}
	}
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// countRows reads the table of the first sink.
func countRows(folder string) (rows int64, err error) {
	for _, err := range dir.Tables(tables(folder)).Rows(tableID(0)) {
		if err != nil {
			return rows, err
		}
		rows++
	}
	return rows, nil
}
