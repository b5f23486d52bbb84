package drivers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/storageapi"
)

// sinkClient returns a client with the sink's own token, which it makes if needed, and the id of the token. Without a store it returns the
// user's client for a sink that has no token for its bucket.
func (t *Target) sinkClient(ctx context.Context, f *driver.File) (*storageapi.Client, storageapi.ID, error) {
	if t.opts.Tokens == nil {
		return t.client, "", nil
	}
	stage, bucket, _, err := splitTable(f.Table.ID)
	if err != nil {
		return nil, "", err
	}
	token, err := t.opts.Tokens.Get(ctx, f.SinkID)
	if err == nil && token.Bucket == stage+"."+bucket {
		return t.client.WithToken(token.Token), token.ID, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, "", err
	}
	if t.store == nil {
		return t.client, "", nil
	}
	return t.renew(ctx, f.SinkID, f.Table.ID, func(SinkToken) bool { return true })
}

// Renew makes a new token for a sink and deletes the old one. It uses the client's own token, and creates the bucket of the
// table if it is missing. Call it when a sink is enabled again.
func (t *Target) Renew(ctx context.Context, sinkID, tableID string) error {
	if t.store == nil {
		return errors.New("storage api target: renew: there is no store of tokens")
	}
	if _, _, err := t.renew(ctx, sinkID, tableID, func(SinkToken) bool { return false }); err != nil {
		return fmt.Errorf("storage api target: renew the token of sink %q: %w", sinkID, classify(err))
	}
	return nil
}

// Drop deletes the token of a sink. Call it when a sink is disabled or deleted and its files are imported.
func (t *Target) Drop(ctx context.Context, sinkID string) error {
	if t.store == nil {
		return nil
	}
	defer t.locks.Hold(sinkID)()
	old, err := t.store.Get(ctx, sinkID)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = ignoreNotFound(t.client.DeleteToken(ctx, old.ID))
	}
	if err == nil {
		err = t.store.Delete(ctx, sinkID)
	}
	if err != nil {
		return fmt.Errorf("storage api target: drop the token of sink %q: %w", sinkID, err)
	}
	return nil
}

// renew makes a token, stores it, and only then deletes the old one. It takes the old one, which another call may have made meanwhile, if that
// is for the bucket of the table and isGood. It returns a client with the token, and its id.
func (t *Target) renew(ctx context.Context, sinkID, table string, isGood func(old SinkToken) bool) (*storageapi.Client, storageapi.ID, error) {
	defer t.locks.Hold(sinkID)()
	stage, name, _, err := splitTable(table)
	if err != nil {
		return nil, "", err
	}
	bucket := stage + "." + name
	old, err := t.store.Get(ctx, sinkID)
	known := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, "", err
	}
	if known && old.Bucket == bucket && isGood(old) {
		return t.client.WithToken(old.Token), old.ID, nil
	}
	if err := t.ensureBucket(ctx, stage, name); err != nil {
		return nil, "", err
	}
	made, err := t.client.CreateToken(ctx, storageapi.TokenCreate{
		Description:       "[_internal] Stream Sink " + sinkID,
		BucketPermissions: map[string]string{bucket: "write"}, CanReadAllFileUploads: true,
	})
	if err != nil {
		return nil, "", err
	}
	if err := t.store.Put(ctx, sinkID, SinkToken{made.ID, made.Token, bucket}); err != nil {
		return nil, "", errors.Join(err, ignoreNotFound(t.client.DeleteToken(context.WithoutCancel(ctx), made.ID)))
	}
	if known {
		if err := ignoreNotFound(t.client.DeleteToken(ctx, old.ID)); err != nil {
			t.opts.Logger.Warn("storage api target: the old token of a sink could not be deleted", "sink", sinkID, "token", old.ID, "error", err)
		}
	}
	return t.client.WithToken(made.Token), made.ID, nil
}
