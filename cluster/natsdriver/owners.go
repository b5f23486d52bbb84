package natsdriver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"time"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/driverkit/ctxio"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Owners keeps the owners' records in a key-value bucket. It is safe for concurrent use. A version is the sequence of the write in
// the stream of the bucket. If the bucket is deleted and made again, versions begin again, so an epoch must be in the value.
type Owners struct {
	js      jetstream.JetStream
	options calls
	bucket  string
	found   atomic.Pointer[jetstream.KeyValue]
}

var _ changelog.Owners = (*Owners)(nil)

// markerTTL is how long the servers keep the marker of a key that was deleted. Nothing depends on it.
const markerTTL = time.Hour

// NewOwners returns the owners on the servers of a connection. It sends nothing. The caller closes the connection.
func NewOwners(conn *nats.Conn, o Options) (*Owners, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if err := checkVersion(conn); err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, fmt.Errorf("natsdriver: %w", err)
	}
	o = o.withDefaults()
	return &Owners{js: js, options: calls{o, newElections(conn)}, bucket: "FB_" + o.Cluster + "_own"}, nil
}

// Create makes the bucket. It needs as many running servers as there are replicas, so it is called when a node joins, never when the
// bucket is missed. One that exists is left alone.
func (o *Owners) Create(ctx context.Context) error {
	_, err := withRetries(ctx, o.options, func(ctx context.Context) (jetstream.KeyValue, error) {
		return o.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: o.bucket, History: 1, Storage: jetstream.FileStorage, Replicas: o.options.Replicas,
			LimitMarkerTTL: markerTTL, Metadata: map[string]string{metaID: rand.Text()},
		})
	})
	if err != nil && !errors.Is(err, jetstream.ErrBucketExists) {
		return fmt.Errorf("natsdriver: create the bucket %s: %w", o.bucket, err)
	}
	return nil
}

// ID returns what tells this bucket from one that is made again under its name. The error is [changelog.ErrMissing] if there is none.
func (o *Owners) ID(ctx context.Context) (string, error) {
	stream, err := withRetries(ctx, o.options, func(ctx context.Context) (jetstream.Stream, error) { return o.js.Stream(ctx, "KV_"+o.bucket) })
	if err != nil {
		return "", fmt.Errorf("natsdriver: look for the bucket %s: %w", o.bucket, missing(err))
	}
	return stream.CachedInfo().Config.Metadata[metaID], nil
}

// kv finds the bucket, once.
func (o *Owners) kv(ctx context.Context) (jetstream.KeyValue, error) {
	if kv := o.found.Load(); kv != nil {
		return *kv, nil
	}
	kv, err := withRetries(ctx, o.options, func(ctx context.Context) (jetstream.KeyValue, error) { return o.js.KeyValue(ctx, o.bucket) })
	if err != nil {
		return nil, missing(err)
	}
	o.found.Store(&kv)
	return kv, nil
}

// Get implements [changelog.Owners]. Any replica may respond.
func (o *Owners) Get(ctx context.Context, key string) (changelog.Versioned, error) {
	if err := changelog.CheckKey(key); err != nil {
		return changelog.Versioned{}, fmt.Errorf("natsdriver: get: %w", err)
	}
	kv, err := o.kv(ctx)
	if err != nil {
		return changelog.Versioned{}, fmt.Errorf("natsdriver: get %s: %w", key, err)
	}
	v, err := withRetries(ctx, o.options, func(ctx context.Context) (changelog.Versioned, error) {
		e, err := kv.Get(ctx, key)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			return changelog.Versioned{Key: key}, nil
		}
		if err != nil {
			return changelog.Versioned{}, err
		}
		return versioned(e), nil
	})
	if err != nil {
		return changelog.Versioned{}, fmt.Errorf("natsdriver: get %s: %w", key, err)
	}
	return v, nil
}

// CompareAndSet implements [changelog.Owners].
func (o *Owners) CompareAndSet(ctx context.Context, key string, old changelog.Version, value []byte) (changelog.Version, error) {
	if err := changelog.CheckKey(key); err != nil {
		return 0, fmt.Errorf("natsdriver: set: %w", err)
	}
	kv, err := o.kv(ctx)
	if err != nil {
		return 0, fmt.Errorf("natsdriver: set %s: %w", key, err)
	}
	ctx, cancel := o.options.elections.bound(ctx, "KV_"+o.bucket, o.options.AppendTimeout)
	defer cancel()
	var revision uint64
	err = compared(ctx, func() (err error) {
		if old == 0 {
			revision, err = kv.Create(ctx, key, value) // of a key that was deleted, too
		} else {
			revision, err = kv.Update(ctx, key, value, uint64(old))
		}
		return err
	})
	switch {
	case errors.Is(err, jetstream.ErrKeyRevisionMismatch), errors.Is(err, jetstream.ErrKeyExists):
		return 0, fmt.Errorf("natsdriver: set %s: %w: %w", key, changelog.ErrLost, err)
	case err != nil:
		return 0, fmt.Errorf("natsdriver: set %s: %w: %w", key, changelog.ErrUnknown, err)
	}
	return changelog.Version(revision), nil
}

// Delete implements [changelog.Owners]. It leaves a marker, which a bucket of this release keeps for an hour.
func (o *Owners) Delete(ctx context.Context, key string, old changelog.Version) error {
	if err := changelog.CheckKey(key); err != nil {
		return fmt.Errorf("natsdriver: delete: %w", err)
	}
	if old == 0 {
		return fmt.Errorf("natsdriver: delete %s: %w: it has no value", key, changelog.ErrLost)
	}
	kv, err := o.kv(ctx)
	if err != nil {
		return fmt.Errorf("natsdriver: delete %s: %w", key, err)
	}
	status, err := withRetries(ctx, o.options, kv.Status)
	if err != nil {
		return fmt.Errorf("natsdriver: delete %s: %w", key, err)
	}
	options := []jetstream.KVDeleteOpt{jetstream.LastRevision(uint64(old))}
	if ttl := status.LimitMarkerTTL(); ttl > 0 {
		options = append(options, jetstream.PurgeTTL(ttl))
	}
	ctx, cancel := o.options.elections.bound(ctx, "KV_"+o.bucket, o.options.AppendTimeout)
	defer cancel()
	err = compared(ctx, func() error { return kv.Purge(ctx, key, options...) })
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jetstream.ErrKeyRevisionMismatch):
		return fmt.Errorf("natsdriver: delete %s: %w: %w", key, changelog.ErrLost, err)
	}
	return fmt.Errorf("natsdriver: delete %s: %w: %w", key, changelog.ErrUnknown, err)
}

// compared repeats a change that the leader has refused without comparing it, because another change of the key is in progress. It acknowledges a change
// a moment before it stops counting it as in progress, so that the next one of the same caller may be refused.
func compared(ctx context.Context, change func() error) (err error) {
	pause := ctxio.Pause{First: time.Millisecond, Last: 64 * time.Millisecond}
	for range 7 {
		if err = change(); code(err) != jetstream.JSErrCodeStreamWrongLastSequenceConstant || pause.Wait(ctx) != nil {
			return err
		}
	}
	return err
}

// Watch implements [changelog.Owners]. It resumes by itself after a server was away.
func (o *Owners) Watch(ctx context.Context, prefix string) iter.Seq2[changelog.Versioned, error] {
	return func(yield func(changelog.Versioned, error) bool) {
		if err := o.watch(ctx, prefix, func(v changelog.Versioned) bool { return yield(v, nil) }); err != nil {
			yield(changelog.Versioned{}, fmt.Errorf("natsdriver: watch %s: %w", prefix, err))
		}
	}
}

// unseenMost is how long the values of a watch may lack a key. A key whose value was deleted long ago may vanish while the watch begins.
const unseenMost = 5 * time.Second

// watch returns nil if yield has had enough. It watches all keys, because only then does it see when the replica that it reads, which may lag, has
// reached the leader's state at the start of watch.
func (o *Owners) watch(ctx context.Context, prefix string, yield func(changelog.Versioned) bool) error {
	kv, err := o.kv(ctx)
	if err != nil {
		return err
	}
	subjects := "$KV." + o.bucket + "."
	begin, err := withRetries(ctx, o.options, func(ctx context.Context) (*jetstream.StreamInfo, error) {
		stream, err := o.js.Stream(ctx, "KV_"+o.bucket)
		if err != nil {
			return nil, err
		}
		return stream.Info(ctx, jetstream.WithSubjectFilter(subjects+">"))
	})
	if err != nil {
		return err
	}
	last, unseen := begin.State.LastSeq, begin.State.Subjects
	watching, stop := context.WithCancel(ctx)
	defer stop()
	watcher, err := kv.WatchAll(watching)
	if err != nil {
		return err
	}
	defer func() { // the client ends only after it has delivered its pending updates
		stop()
		for range watcher.Updates() {
		}
	}()
	// The values of keys come first, and then changes. The values have ended when each key has come and the leader's state at the start is reached. A
	// value that is replaced meanwhile comes after the last one of that state.
	first, reached, started := begin.State.Msgs > 0, false, time.Now()
	if !first && !yield(changelog.Versioned{}) {
		return nil
	}
	for e := range watcher.Updates() {
		if e == nil { // the end of the replica's values, which may be old
			continue
		}
		if e.Operation() == jetstream.KeyValuePut && strings.HasPrefix(e.Key(), prefix) && !yield(versioned(e)) {
			return nil
		}
		delete(unseen, subjects+e.Key())
		reached = reached || e.Revision() >= last
		if first && reached && (len(unseen) == 0 || time.Since(started) > unseenMost) {
			first = false
			if !yield(changelog.Versioned{}) {
				return nil
			}
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return errors.New("the client ended the watch")
}

func versioned(e jetstream.KeyValueEntry) changelog.Versioned {
	return changelog.Versioned{Key: e.Key(), Value: e.Value(), Version: changelog.Version(e.Revision())}
}
