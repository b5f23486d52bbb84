package natsdriver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/driverkit/ctxio"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Journal is the log of the commits of a cluster's catalog, in the stream FB_<cluster>_catalog. It is safe for concurrent use. Create
// makes the stream. A Journal of a cluster whose stream is not there fails with [changelog.ErrMissing].
type Journal struct {
	conn    *nats.Conn
	js      jetstream.JetStream
	options calls
	wait    time.Duration // journalWait
	found   atomic.Pointer[journalStream]
}

// journalStream is the stream as it was found first. One that is made again later has another id.
type journalStream struct {
	jetstream.Stream
	id, subject string
}

var _ changelog.Journal = (*Journal)(nil)

// NewJournal returns the journal on the servers of a connection. It sends nothing. The caller closes the connection. Of the options
// MaxBytes counts only if it is less than 256 MiB, because the catalog keeps the journal much smaller by itself.
func NewJournal(conn *nats.Conn, o Options) (*Journal, error) {
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
	return &Journal{conn: conn, js: js, options: calls{o.withDefaults(), newElections(conn)}, wait: journalWait}, nil
}

const (
	journalBytes = 256 << 20
	// journalWait bounds one of the requests that Wait makes, because a replica that lags must not keep it waiting forever. A stopped replica is
	// noticed after some ten seconds without a heartbeat. Each request costs the creation of a consumer and its removal, which all
	// servers of the cluster write down.
	journalWait = time.Minute
)

func (j *Journal) name() string { return "FB_" + j.options.Cluster + "_catalog" }

// Create makes the stream. It needs as many running servers as there are replicas, so it is called when a node joins, never when the
// stream is missed. One that exists is left alone.
func (j *Journal) Create(ctx context.Context) error {
	id := rand.Text()
	config := jetstream.StreamConfig{
		Name:       j.name(),
		Subjects:   []string{"fb." + j.options.Cluster + ".catalog." + id},
		Storage:    jetstream.FileStorage,
		Replicas:   j.options.Replicas,
		MaxBytes:   min(j.options.MaxBytes, journalBytes),
		Discard:    jetstream.DiscardNew,
		DenyDelete: true,
		Metadata:   map[string]string{metaID: id, metaFormat: format},
	}
	_, err := withRetries(ctx, j.options, func(ctx context.Context) (jetstream.Stream, error) { return j.js.CreateStream(ctx, config) })
	if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // its id differs, so it was there before
		return fmt.Errorf("natsdriver: create %s: %w", j.name(), err)
	}
	return nil
}

// ID returns what tells this stream from one that is made again under its name. The error is [changelog.ErrMissing] if there is none.
func (j *Journal) ID(ctx context.Context) (string, error) {
	s, _, err := j.state(ctx)
	if err != nil {
		return "", fmt.Errorf("natsdriver: look for %s: %w", j.name(), err)
	}
	return s.id, nil
}

// stream finds the stream.
func (j *Journal) stream(ctx context.Context) (*journalStream, error) {
	if s := j.found.Load(); s != nil {
		return s, nil
	}
	if most := j.conn.MaxPayload(); most < changelog.PartBytes+maxHeaders {
		return nil, fmt.Errorf("max_payload of the server is %d bytes, must be at least %d", most, changelog.PartBytes+maxHeaders)
	}
	stream, err := withRetries(ctx, j.options, func(ctx context.Context) (jetstream.Stream, error) { return j.js.Stream(ctx, j.name()) })
	if err != nil {
		return nil, missing(err)
	}
	config := stream.CachedInfo().Config
	if config.Metadata[metaFormat] != format || len(config.Subjects) != 1 {
		return nil, fmt.Errorf("the stream %s has the format %q instead of %s: it was made by another version", j.name(), config.Metadata[metaFormat], format)
	}
	s := &journalStream{stream, config.Metadata[metaID], config.Subjects[0]}
	j.found.Store(s)
	return s, nil
}

// state returns the stream and what its leader says about it now.
func (j *Journal) state(ctx context.Context) (*journalStream, jetstream.StreamState, error) {
	s, err := j.stream(ctx)
	if err != nil {
		return nil, jetstream.StreamState{}, err
	}
	info, err := withRetries(ctx, j.options, func(ctx context.Context) (*jetstream.StreamInfo, error) {
		info, err := s.Info(ctx)
		if err == nil && !leads(info.Cluster) {
			err = fmt.Errorf("the leader of %s has not heard from a majority for %s", j.name(), silentFor)
		}
		return info, err
	})
	if err != nil {
		return nil, jetstream.StreamState{}, missing(err)
	}
	if info.Config.Metadata[metaID] != s.id {
		return nil, jetstream.StreamState{}, fmt.Errorf("%w: the stream %s was made again, it is a different one", changelog.ErrMissing, j.name())
	}
	return s, info.State, nil
}

// silentFor is less than the four seconds without a leader after which a replica asks the others for their votes.
const silentFor = 3 * time.Second

// leads reports whether a majority has responded to the leader that sent this, so recently that the others have no newer one. The server itself
// believes that it leads for up to twenty seconds after it was cut off, and returns its old state.
func leads(c *jetstream.ClusterInfo) bool {
	if c == nil {
		return true // the server is alone
	}
	near := 1
	for _, r := range c.Replicas {
		if r.Active > 0 && r.Active < silentFor { // 0 if it has not responded yet
			near++
		}
	}
	return near > (len(c.Replicas)+1)/2
}

// Append implements [changelog.Journal].
func (j *Journal) Append(ctx context.Context, after changelog.Position, data []byte) error {
	s, err := j.stream(ctx)
	if err != nil {
		return fmt.Errorf("natsdriver: append to %s: %w", j.name(), err)
	}
	ctx, cancel := j.options.elections.bound(ctx, j.name(), j.options.AppendTimeout)
	defer cancel()
	var ack *jetstream.PubAck
	pause := ctxio.Pause{First: time.Millisecond, Last: 64 * time.Millisecond}
	for range 10 {
		ack, err = j.js.PublishMsg(ctx, &nats.Msg{Subject: s.subject, Data: data},
			jetstream.WithRetryAttempts(0), jetstream.WithExpectLastSequence(uint64(after)), jetstream.WithExpectStream(j.name()))
		// The server of this connection may not know yet that the leader of a new stream listens.
		if !errors.Is(err, jetstream.ErrNoStreamResponse) || pause.Wait(ctx) != nil {
			break
		}
	}
	switch {
	case wrongLast(err):
		return fmt.Errorf("natsdriver: append to %s: %w: %w", j.name(), changelog.ErrLost, err)
	case err != nil:
		return fmt.Errorf("natsdriver: append to %s: %w: %w", j.name(), changelog.ErrUnknown, err)
	case ack.Sequence != uint64(after)+1:
		return fmt.Errorf("natsdriver: append to %s: %w: the entry after %d is at %d", j.name(), changelog.ErrUnknown, after, ack.Sequence)
	}
	return nil
}

// Read implements [changelog.Journal]. It asks the leader for the end and one replica for the entries. A leader that is cut off from a majority is
// not believed. One that is cut off from a minority may be replaced, and returns an old end for about a second, until its next heartbeat.
func (j *Journal) Read(ctx context.Context, from changelog.Position) iter.Seq2[changelog.JournalEntry, error] {
	return func(yield func(changelog.JournalEntry, error) bool) {
		if err := j.read(ctx, from, yield); err != nil {
			yield(changelog.JournalEntry{}, fmt.Errorf("natsdriver: read %s at %d: %w", j.name(), from, err))
		}
	}
}

// read returns nil at the end and if yield has had enough.
func (j *Journal) read(ctx context.Context, from changelog.Position, yield func(changelog.JournalEntry, error) bool) error {
	s, state, err := j.state(ctx)
	if err != nil {
		return err
	}
	next, first, last := uint64(from), state.FirstSeq, state.LastSeq
	if state.Msgs == 0 {
		first = last + 1
	}
	if next == 0 {
		next = first
	}
	switch {
	case next < first:
		return changelog.ErrTrimmed
	case next > last+1:
		return fmt.Errorf("%w: it ends at %d", changelog.ErrWentBack, last)
	}
	for next <= last {
		chunk, err := withRetries(ctx, j.options, func(ctx context.Context) ([]jetstream.Msg, error) {
			return fetch(ctx, s, next, int(min(last-next+1, readMessages)))
		})
		if err != nil {
			return j.lost(ctx, next, err)
		}
		for _, m := range chunk {
			meta, err := m.Metadata()
			if err != nil {
				return err
			}
			if meta.Sequence.Stream != next {
				return j.lost(ctx, next, fmt.Errorf("%w: the next entry is at %d", changelog.ErrHole, meta.Sequence.Stream))
			}
			next++
			if !yield(changelog.JournalEntry{Position: changelog.Position(next - 1), Data: m.Data()}, nil) {
				return nil
			}
		}
	}
	return nil
}

// lost says why the entry at a position does not come, either that it was trimmed, or err.
func (j *Journal) lost(ctx context.Context, at uint64, err error) error {
	if _, state, stateErr := j.state(ctx); stateErr == nil && at < state.FirstSeq {
		return changelog.ErrTrimmed
	}
	return err
}

// Wait implements [changelog.Journal].
func (j *Journal) Wait(ctx context.Context, after changelog.Position) error {
	s, err := j.stream(ctx)
	if err != nil {
		return fmt.Errorf("natsdriver: wait for %s: %w", j.name(), err)
	}
	waiting, cancel := context.WithTimeout(ctx, j.wait)
	defer cancel()
	_, err = backoff.Retry(waiting, func() (struct{}, error) {
		_, err := fetch(waiting, s, uint64(after)+1, 1)
		if err != nil && !errors.Is(err, nats.ErrNoResponders) { // the servers do not know the consumer everywhere yet
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithMaxElapsedTime(0), backoff.WithBackOff(&backoff.ExponentialBackOff{
		InitialInterval: 10 * time.Millisecond, RandomizationFactor: 0.5, Multiplier: 2, MaxInterval: time.Second,
	}))
	if err != nil && waiting.Err() == nil {
		return fmt.Errorf("natsdriver: wait for %s: %w", j.name(), err)
	}
	return ctx.Err()
}

// Trim implements [changelog.Journal] by a purge. It names the subject too, so that it leaves a stream alone that was made again.
func (j *Journal) Trim(ctx context.Context, through changelog.Position) error {
	s, state, err := j.state(ctx)
	if err != nil {
		return fmt.Errorf("natsdriver: trim %s: %w", j.name(), err)
	}
	if uint64(through) >= state.LastSeq {
		return fmt.Errorf("natsdriver: trim %s: it ends at %d, not after %d", j.name(), state.LastSeq, through)
	}
	if through == 0 {
		return nil
	}
	_, err = withRetries(ctx, j.options, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.Purge(ctx, jetstream.WithPurgeSubject(s.subject), jetstream.WithPurgeSequence(uint64(through)+1))
	})
	if err != nil {
		return fmt.Errorf("natsdriver: trim %s: %w", j.name(), missing(err))
	}
	return nil
}
