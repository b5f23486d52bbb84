package recipes

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/trigger"
)

// Backend receives the events of tenants that sign up while it runs. Each tenant has a source with its own columns, table and secret. The catalog keeps
// the sources in the folder of the engine, so they are back after a restart or a crash.
type Backend struct {
	// Engine takes the events. Close closes it.
	Engine *forebay.Engine
	// Catalog has the sources with their versions. It defines them in the engine.
	Catalog *catalog.Catalog
}

// OpenBackend opens a folder with its tenants.
func OpenBackend(dir string, opts forebay.Options) (*Backend, error) {
	opts.MaxSources = cmp.Or(opts.MaxSources, 1000)
	eng, err := forebay.Open(dir, opts)
	if err != nil {
		return nil, err
	}
	cat, err := catalog.Open(filepath.Join(dir, "catalog"), eng, catalog.Options{Extend: true}) // tables grow with their columns
	if err != nil {
		return nil, errors.Join(err, eng.Close())
	}
	return &Backend{eng, cat}, nil
}

// Close ends the backend. Waiting rows stay in the folder.
func (b *Backend) Close() error { return errors.Join(b.Catalog.Close(), b.Engine.Close()) }

// AddTenant creates the source and the table of a tenant. It returns when both are there and survive a crash. A tenant that exists stays as it is,
// and the error is a [*catalog.Error] with the code [catalog.SourceAlreadyExists].
func (b *Backend) AddTenant(ctx context.Context, by, tenant string, columns mapping.Columns) error {
	task, err := b.Catalog.CreateSource(user(by), catalog.SourceSpec{
		ID: tenant, Name: tenant, Type: forebay.HTTP,
		Settings: forebay.Settings{Import: trigger.Conditions{Interval: 5 * time.Minute}}, // many small tables
		Sinks: []catalog.SinkSpec{{
			ID: "events", Name: "Events", TableID: "in.c-" + tenant + ".events", Columns: columns, OnReject: forebay.Quarantine,
		}},
	})
	if err == nil {
		_, err = task.Wait(ctx)
	}
	return err
}

// SetColumns changes the columns of a tenant. Rows that wait have the columns of their time. Columns that are new are added to the table.
func (b *Backend) SetColumns(ctx context.Context, by, tenant string, columns mapping.Columns) error {
	task, err := b.Catalog.UpdateSink(user(by), tenant, "events", catalog.SinkPatch{Columns: columns})
	if err == nil {
		_, err = task.Wait(ctx)
	}
	return err
}

// RemoveTenant refuses further events of a tenant. Its rows that wait still reach the table, which stays.
func (b *Backend) RemoveTenant(ctx context.Context, by, tenant string) error {
	task, err := b.Catalog.Delete(user(by), catalog.Ref{Source: tenant})
	if err == nil {
		_, err = task.Wait(ctx)
	}
	return err
}

// Path returns where a tenant posts its events, with the secret of the tenant. The handler stream.Ingest serves the path.
func (b *Backend) Path(tenant string) (string, error) {
	source, err := b.Catalog.Source(tenant)
	if err != nil {
		return "", err
	}
	return "/stream/1/" + source.ID + "/" + source.Secret, nil
}

func user(name string) catalog.By { return catalog.By{Type: "user", UserName: name} }
