package changelogtest

import (
	"strings"

	"github.com/forebay/forebay/cluster/changelog"
)

func fullStream(b *logBench) {
	if b.maxBytes == 0 {
		b.t.Skipf("LogHarness.MaxBytes is not set")
	}
	w := b.created()
	if s := b.stat(); s.MaxBytes != b.maxBytes {
		b.t.Errorf("Stat says that MaxBytes is %d, want LogHarness.MaxBytes = %d", s.MaxBytes, b.maxBytes)
	}
	records := b.fill(w, first, 0, changelog.PartBytes)
	end := w.Marker() + changelog.Position(len(records))
	b.expectRead(w.Marker()+1, records...)
	if s := b.expectStat(1, end); s.Bytes > s.MaxBytes || s.Bytes < int64(len(records))*changelog.PartBytes {
		b.t.Errorf("Stat says that %d records of %d bytes take %d of %d bytes", len(records), changelog.PartBytes, s.Bytes, s.MaxBytes)
	}

	// Until there is no room for a marker.
	o, number := first, len(records)
	for _, size := range []int{8 << 10, 512} {
		o.epoch++
		w = b.open(o)
		records = b.fill(w, o, number, size)
		number += len(records)
		end = w.Marker() + changelog.Position(len(records))
	}
	adopter := owner{o.epoch + 1, "node-2"}
	w, err := b.other.Open(b.ctx, b.instance, adopter.marker())
	if err != nil {
		b.t.Fatalf("Open of a full stream = %v, want nil: keep room for markers, so that an adopter can read up to its own", err)
	}
	b.writers = append(b.writers, w)
	b.expectRead(w.Marker(), adopter.marker())
	_, err = w.Append(adopter.batch(uint64(number+1), "x")).Wait(b.ctx)
	b.expectError("Wait for a record behind the marker of a full stream", err, changelog.ErrFull, "the room for markers is for nothing else")
	b.trim(end)
	adopter.epoch++
	b.append(b.open(adopter), adopter.batch(uint64(number+1), strings.Repeat("x", changelog.PartBytes)))
}

// A stream that is trimmed before it is full is never full, however much one writer appends.
func trimInTime(b *logBench) {
	if b.maxBytes == 0 {
		b.t.Skipf("LogHarness.MaxBytes is not set")
	}
	w := b.created()
	data := strings.Repeat("x", changelog.PartBytes)
	const rounds = 4
	number := uint64(0)
	for range rounds {
		var tickets []changelog.Ticket
		for range b.maxBytes / changelog.PartBytes / 3 {
			number++
			tickets = append(tickets, w.Append(first.batch(number, data)))
		}
		var end changelog.Position
		for _, t := range tickets {
			p, err := t.Wait(b.ctx)
			if err != nil {
				b.t.Fatalf("Wait for record %d = %v, and a third of the stream is in use: count what was trimmed", number, err)
			}
			end = p
		}
		b.trim(end)
	}
}

// fill appends records until the stream is full, and returns the stored records.
func (b *logBench) fill(w changelog.Writer, o owner, number, size int) (records []changelog.Record) {
	b.t.Helper()
	data := strings.Repeat("x", size)
	var tickets []changelog.Ticket
	for i := range b.maxBytes/changelog.PartBytes + 2*changelog.Window {
		records = append(records, o.batch(uint64(number)+uint64(i)+1, data))
		tickets = append(tickets, w.Append(records[i]))
	}
	stored := 0
	for i, t := range tickets {
		_, err := t.Wait(b.ctx)
		switch {
		case err == nil && stored < i:
			b.t.Fatalf("record %d was stored behind record %d, which was refused: after the first ticket that fails the writer is dead", i+1, stored+1)
		case err == nil:
			stored++
		case stored == i:
			b.expectError("Wait for the record that does not fit", err, changelog.ErrFull, "tell the bound of the stream from other refusals, "+
				"since the owner must trim then")
		}
	}
	if stored == len(tickets) {
		b.t.Fatalf("%d records of %d bytes fit into %d bytes behind %d others: bound the stream, and refuse new records instead of removing old ones",
			stored, size, b.maxBytes, number)
	}
	return records[:stored]
}

func trimThenRead(b *logBench) {
	w := b.created()
	records := first.batches(1, 10)
	p := b.append(w, records...)
	b.trim(0)
	if got, err := b.tryRead(b.log, p[0]); err != nil || len(got) != len(records) {
		b.t.Fatalf("Trim up to position 0 leaves %d of %d records (%v): there is none up to there, so remove none", len(got), len(records), err)
	}
	b.trim(p[4])
	b.expectTrimmed(p[4])
	b.expectTrimmed(0)
	b.expectRead(p[5], records[5:]...)
	b.expectStat(p[5], p[9])
	b.trim(p[2]) // late
	b.expectRead(p[5], records[5:]...)

	b.trim(p[9])
	b.expectTrimmed(p[9])
	b.expectRead(p[9] + 1)
	b.expectStat(p[9]+1, p[9])
	more := first.batches(11, 2)
	if q := b.append(w, more...); q[0] != p[9]+1 {
		b.t.Errorf("after everything was trimmed the next record is at %d, want %d: positions never return", q[0], p[9]+1)
	}
	b.expectRead(p[9]+1, more...)
}
