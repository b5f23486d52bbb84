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

// Servers reserve MaxBytes of a stream, however little it has. So the MaxBytes of a log follow what it has:
//
//	Create      reserves firstBytes
//	Stat        doubles the reservation until the log takes at most half of it
//	Append      does the same when the reservation is used up
//	Open        gives back what the log does not need: the owner before has ended
//
// The metadata of the stream say where that ends: at Options.MaxBytes of the node that created it. A stream refuses new records at its MaxBytes and
// never removes old ones, so a reservation that is too small for a moment loses nothing.
//
// A reservation above this limit, or none, is the choice of an operator, and stays.

// firstBytes are reserved for a new log.
const firstBytes = 32 << 20

// bound is what a stream may take besides markers, of the present reservation.
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

// reserve lets the reservation of a stream follow what it has, and is to get now. Only with shrink it becomes smaller. It returns the stream as it is
// then, also with an error.
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
	if _, err := answered(ctx, l.options, func(ctx context.Context) (jetstream.Stream, error) {
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

// noRoom adds to the error of a server that has no room to reserve so many bytes what to do about it.
func noRoom(err error, bytes int64) error {
	if c := code(err); c == codeStorage || c == codeNoPlace && strings.Contains(err.Error(), "insufficient storage") {
		return fmt.Errorf("the servers have no room to reserve %d MiB more for a log: raise natsserver.Options.MaxStore (max_file_store of other servers), "+
			"or repair the tables whose rows lost nodes hold: %w", bytes>>20, err)
	}
	return err
}
