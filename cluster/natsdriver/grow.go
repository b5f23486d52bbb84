package natsdriver

import (
	"context"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// A server reserves MaxBytes for a stream, even if the stream is nearly empty. MaxBytes of a log therefore follow its size:
//
//	Create      reserves firstBytes
//	Stat        doubles the reservation until the log takes at most half of it
//	Append      does the same when the reservation is used up
//	Open        gives back unused room. The previous owner is fenced by then
//
// The metadata of the stream contain the upper limit: Options.MaxBytes of the node that created it. At its MaxBytes a stream refuses new records. It
// never removes old records, so a reservation that is too small for a moment loses nothing.
//
// A reservation above this limit, or none, is the choice of an operator and does not change.

// firstBytes are reserved for a new log.
const firstBytes = 32 << 20

// bound is the part of the current reservation that records may use. Markers use the rest.
func bound(info *jetstream.StreamInfo) int64 {
	if info.Config.MaxBytes <= 0 { // an operator has lifted it
		return math.MaxInt64
	}
	return max(0, info.Config.MaxBytes-markerBytes)
}

// limit is the largest reservation of a stream. A stream of an earlier release has reserved it.
func limit(info *jetstream.StreamInfo) int64 {
	n, err := strconv.ParseInt(info.Config.Metadata[metaBound], 10, 64)
	if err != nil {
		return info.Config.MaxBytes
	}
	return n
}

// wanted returns the reservation for a log of so many bytes, at most limit.
func wanted(bytes, limit int64) int64 {
	reserve := int64(firstBytes)
	for reserve < limit && bytes > (reserve-markerBytes)/2 {
		reserve *= 2
	}
	return min(reserve, limit)
}

// reserve changes the reservation of a stream to fit its size and the next bytes. The reservation becomes smaller only if shrink is set. reserve
// returns the state of the stream afterwards, even if it fails.
func (l *Log) reserve(ctx context.Context, stream jetstream.Stream, info *jetstream.StreamInfo, next int64, shrink bool) (*jetstream.StreamInfo, error) {
	most, now := limit(info), info.Config.MaxBytes
	want := wanted(int64(info.State.Bytes)+next, most)
	if now <= 0 || now > most || want == now || want < now && !shrink {
		return info, nil
	}
	config := info.Config
	config.MaxBytes = want
	config.Metadata = maps.Clone(config.Metadata)
	config.Metadata[metaBound] = strconv.FormatInt(most, 10)
	if _, err := withRetries(ctx, l.options, func(ctx context.Context) (jetstream.Stream, error) {
		return l.js.UpdateStream(ctx, config)
	}); err != nil {
		return info, noRoom(missing(err), want-now)
	}
	after, err := l.info(ctx, stream, info.State.LastSeq)
	if err != nil {
		return info, err
	}
	return after, nil
}

// noRoom adds advice to the error of a server that cannot reserve so many bytes.
func noRoom(err error, bytes int64) error {
	if c := code(err); c == codeStorage || c == codeNoPlace && strings.Contains(err.Error(), "insufficient storage") {
		return fmt.Errorf("the servers have no room to reserve %d MiB more for a log: raise natsserver.Options.MaxStore (max_file_store of other servers), "+
			"or repair the tables whose rows lost nodes hold: %w", bytes>>20, err)
	}
	return err
}
