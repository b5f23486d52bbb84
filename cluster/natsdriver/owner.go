package natsdriver

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/forebay/forebay/cluster/changelog"
	"github.com/nats-io/nats.go/jetstream"
)

// owner is whom a record belongs to. Records of each owner have a separate subject, so that one request shows which owners a stream
// has records of. The last record does not show it, because an owner that was fenced while it opened leaves markers of a lower epoch.
type owner struct {
	epoch uint64
	node  string
}

// subject is the subject of the owner's records in a stream.
func (o owner) subject(info *jetstream.StreamInfo) string {
	return strings.TrimSuffix(info.Config.Subjects[0], ">") + strconv.FormatUint(o.epoch, 10) + "." + base64.RawURLEncoding.EncodeToString([]byte(o.node))
}

// ownerOf is the inverse of subject.
func ownerOf(subject string) (o owner, err error) {
	words := strings.Split(subject, ".")
	if len(words) < 2 {
		return owner{}, fmt.Errorf("the subject %q has no owner", subject)
	}
	epoch, err := strconv.ParseUint(words[len(words)-2], 10, 64)
	if err != nil {
		return owner{}, fmt.Errorf("the subject %q has no epoch", subject)
	}
	node, err := base64.RawURLEncoding.DecodeString(words[len(words)-1])
	if err != nil {
		return owner{}, fmt.Errorf("the subject %q has no node", subject)
	}
	return owner{epoch, string(node)}, nil
}

// fenced returns [changelog.ErrFenced] if the stream has a record of an owner that fences, and otherwise the leader's info of
// the stream. The response counts only if the server knows the stream up to a sequence. Owners whose records were trimmed are not seen.
// The owners' store knows the epoch.
func (l *Log) fenced(ctx context.Context, stream jetstream.Stream, upTo uint64, fences func(owner) bool) (*jetstream.StreamInfo, error) {
	info, err := l.info(ctx, stream, upTo, jetstream.WithSubjectFilter(">"))
	if err != nil {
		return nil, err
	}
	for subject := range info.State.Subjects {
		o, err := ownerOf(subject)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", changelog.ErrHole, err)
		}
		if fences(o) {
			return nil, fmt.Errorf("%w: %s has the epoch %d", changelog.ErrFenced, o.node, o.epoch)
		}
	}
	return info, nil
}

// info asks for the state of a stream until a server responds that knows it up to a sequence.
func (l *Log) info(ctx context.Context, stream jetstream.Stream, upTo uint64, options ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	info, err := withRetries(ctx, l.options, func(ctx context.Context) (*jetstream.StreamInfo, error) {
		info, err := stream.Info(ctx, options...)
		if err == nil && info.State.LastSeq < upTo {
			err = errors.New("a server that was the leader has responded")
		}
		return info, err
	})
	return info, missing(err)
}
