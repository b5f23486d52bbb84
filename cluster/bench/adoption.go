package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/changelog"
	"github.com/forebay/forebay/cluster/natsdriver"
)

// adoption fills a node whose staging takes nothing, kills it and removes its disk, and follows the record of its instance until another
// node has moved all rows to the table. The servers are separate processes, so none of them is lost too.
func (b *bench) adoption(ctx context.Context, folder string) (figures map[string]float64, err error) {
	servers, natsURL, err := startServers(ctx, folder)
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
	conn, err := nats.Connect(natsURL)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	records, err := natsdriver.NewOwners(conn, natsdriver.Options{})
	if err != nil {
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
	seen, err := follow(ctx, records, "owner")
	if err != nil {
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
	var first time.Time
	if err := adopter.ask(ctx, question{Do: "first slice"}, &first); err != nil {
		return nil, err
	}
	restored := first.Sub(seen[changelog.Adopting]).Seconds()
	return map[string]float64{
		"mb": float64(b.megabyte), "rows": float64(rows), "adopter_rss_mb": float64(u.Resident) / 1e6,
		"silent_s": seen[changelog.Adopting].Sub(killed).Seconds(), "restore_s": restored, "restore_s_per_gb": restored * 1024 / float64(b.megabyte),
		"drain_s": seen[changelog.Drained].Sub(first).Seconds(),
	}, nil
}

// follow returns when the instance that a node had came to each state, from the first that another node gives it to the end.
func follow(ctx context.Context, records changelog.Owners, node string) (seen map[changelog.OwnerState]time.Time, err error) {
	seen, key := map[changelog.OwnerState]time.Time{}, ""
	for v, err := range records.Watch(ctx, changelog.OwnerKey("")) {
		if err != nil {
			return nil, err
		}
		if v.Version == 0 {
			continue
		}
		var o changelog.Owner
		if err := o.UnmarshalJSON(v.Value); err != nil {
			return nil, err
		}
		if o.Node == node {
			key = v.Key
		}
		if v.Key != key || o.State == changelog.Owned {
			continue
		}
		if _, ok := seen[o.State]; !ok {
			seen[o.State] = time.Now()
		}
		switch o.State {
		case changelog.Drained:
			return seen, nil
		case changelog.Damaged:
			return nil, errors.New("the instance is damaged")
		}
	}
	return nil, context.Cause(ctx)
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
