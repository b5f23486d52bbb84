package salvage

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/forebay/forebay/buffer/internal/format"
)

// plan is what becomes of everything that was found. It has the records of the new store, and the slices whose chunks it needs.
type plan struct {
	*found
	*losses
	records []keyValue
	keep    map[uint64]bool
	// known are the numbers of the sinks of the new store. The buffer gives all other numbers to new sinks.
	known map[uint32]bool
	// keepRecords are the keys of records of rejected records.
	keepRecords map[string]bool
}

type keyValue struct{ key, value []byte }

func (p *plan) set(key, value []byte) { p.records = append(p.records, keyValue{key, value}) }

// settle decides what becomes of everything that was found. It reads nothing but f, and adds to lost everything
// that is missing or cannot be attributed. The new store belongs to instance and has the version.
func settle(f *found, lost *losses, instance string, version int) *plan {
	p := &plan{found: f, losses: lost, keep: map[uint64]bool{}, known: map[uint32]bool{}}
	f.join()
	bySink := map[uint32]*ledgerOf{}
	sink := func(num uint32, id string) *ledgerOf {
		l := bySink[num]
		if l == nil {
			l = &ledgerOf{}
			if v := p.sinks[num]; v != nil {
				l.rec = v.rec
			} else {
				l.rec = format.Sink{ID: cmp.Or(id, fmt.Sprintf("lost-%d", num))}
			}
			bySink[num] = l
		}
		return l
	}
	for num := range p.sinks {
		if !p.wiped(format.SinkKey(num)) {
			sink(num, "")
		}
	}
	parts := map[uint64][]uint64{} // slices by file
	for _, num := range slices.Sorted(maps.Keys(p.slices)) {
		p.lastSlice = max(p.lastSlice, num)
		if sl := p.slices[num]; p.wiped(format.SliceKey(num)) {
			delete(p.slices, num)
		} else {
			p.lastFile = max(p.lastFile, sl.rec.File)
			parts[sl.rec.File] = append(parts[sl.rec.File], num)
		}
	}
	for _, num := range slices.Sorted(maps.Keys(p.files)) {
		p.lastFile = max(p.lastFile, num)
		f := &p.files[num].rec
		if p.wiped(format.FileKey(num)) {
			delete(p.files, num)
			continue
		}
		l := sink(f.Sink, f.SinkID)
		f.Instance, f.SinkID, f.Copied, f.Salvaged = cmp.Or(f.Instance, p.instance), l.rec.ID, true, true
		if f.Instance == "" {
			p.losePart(l, num, parts[num], "the name of the data directory is lost, and with it the ids of what waited")
			continue
		}
		waiting := p.settleFile(num, f, l, parts[num])
		delete(parts, num)
		if waiting == 0 && !f.Done() {
			p.lose(format.Damage{
				SinkID: l.rec.ID, FileID: format.FileID(f.Instance, cmp.Or(f.Number, num)), FirstChunk: -1, LastChunk: -1, Uncounted: true,
				Reason: "the records of its slices are lost",
			})
			continue
		}
		p.set(format.FileKey(num), format.Encode(f))
	}
	for _, num := range slices.Sorted(maps.Keys(parts)) {
		p.losePart(nil, num, parts[num], "the record of its file is lost, so its table is not known; its rows may be there already")
	}
	p.settleRejects(sink)
	for _, num := range slices.Sorted(maps.Keys(p.arrivals)) {
		key, a := format.ArrivalKey(num), &p.arrivals[num].rec
		if p.wiped(key) {
			continue
		}
		sink(a.File.Sink, a.File.SinkID)
		a.File.Salvaged = true // the engine may have had it as a file
		p.set(key, format.Encode(a))
		version = max(version, format.Moves)
	}
	for _, num := range slices.Sorted(maps.Keys(bySink)) {
		l := bySink[num]
		l.balance(p)
		l.balanceQuarantine(p)
		p.set(format.SinkKey(num), format.Encode(&l.rec))
		p.known[num] = true
	}
	for _, num := range slices.Sorted(maps.Keys(p.slices)) {
		if p.keep[num] || sliceRank(p.slices[num].rec.State) >= sliceRank(format.SliceUploaded) && p.files[p.slices[num].rec.File] != nil {
			p.set(format.SliceKey(num), format.Encode(&p.slices[num].rec))
		}
	}
	p.loseOrphans()
	for _, f := range p.files {
		if f.rec.Def != nil {
			version = max(version, f.rec.Def.Version())
		}
		if f.rec.Number > 0 || f.rec.Leaving {
			version = max(version, format.Moves)
		}
	}
	for _, l := range bySink {
		if l.rec.Def != nil {
			version = max(version, l.rec.Def.Version())
		}
		if l.rec.Quarantine.MaxAge > 0 {
			version = max(version, format.Kept)
		}
		if l.rec.Moved.Rows > 0 {
			version = max(version, format.Moves)
		}
		if l.moved {
			version = max(version, format.Others)
		}
	}
	p.set([]byte(format.KeyFormat), []byte(strconv.Itoa(version)))
	p.set([]byte(format.KeyInstance), []byte(instance))
	p.set([]byte(format.KeyCounters), format.EncodeCounters(p.lastFile, p.lastSlice))
	if p.lastReject > 0 {
		p.set([]byte(format.KeyRejects), format.EncodeRejects(p.lastReject))
	}
	for key, value := range p.damage {
		if !p.wiped([]byte(key)) {
			p.set([]byte(key), value)
		}
	}
	for i, d := range p.list {
		p.set(format.DamageKey(0, uint32(p.at.Unix()), uint32(i)), format.Encode(&d)) // no slice has the number 0
	}
	return p
}

// ledgerOf gathers the counts that the ledger of a sink must hold.
type ledgerOf struct {
	rec     format.Sink
	waiting format.Count
	sealed  format.Count // of slices that were open, and so are not in rec.Sealed
	held    format.Count // rejected records, except arriving ones
	moved   bool         // some rejected records are of other engines
}

// balance makes the ledger hold. Rows that it knew and that are nowhere are damaged.
func (l *ledgerOf) balance(p *plan) {
	r := &l.rec
	sum := r.Ended()
	sum.Add(l.waiting.Rows, l.waiting.Bytes)
	r.Sealed.Add(l.sealed.Rows, l.sealed.Bytes)
	if lost := r.Sealed.Rows - sum.Rows; lost > 0 {
		size := max(0, r.Sealed.Bytes-sum.Bytes)
		r.Damaged.Add(lost, size)
		sum.Add(lost, size)
		p.lose(format.Damage{
			SinkID: r.ID, FirstChunk: -1, LastChunk: -1, Rows: lost, Bytes: size,
			Reason: "the ledger has rows that no record speaks of: they are lost, or in the table and the record of that is lost",
		})
	}
	r.Sealed = sum
}

// settleFile decides about a file and its slices, and returns how many slices wait.
func (p *plan) settleFile(num uint64, f *format.File, l *ledgerOf, parts []uint64) (waiting int) {
	over := f.Done()
	local := 0
	for _, part := range parts {
		sl := &p.slices[part].rec
		sl.Instance = cmp.Or(sl.Instance, p.instance)
		if over {
			sl.State, sl.Retry = format.SliceImported, format.Retry{}
			continue
		}
		waiting++
		switch sl.State {
		case format.SliceImported:
			// The record of the file is older than this. Importing it once more under its id is harmless.
			sl.State = format.SliceUploaded
		case format.SliceWriting, format.SliceUploading:
			local++
			p.keep[part] = true
			p.seal(part, sl, l)
		}
		l.waiting.Add(sl.Rows, sl.Raw)
	}
	if over || waiting == 0 {
		return waiting
	}
	if f.State == format.FileWriting {
		f.Closed, f.Reason = p.at, format.ReasonSalvaged
	}
	f.Retry, f.State = format.Retry{}, format.FileClosing
	if local == 0 {
		f.State = format.FileImporting
		f.Sealed = p.at
	}
	return waiting
}

// seal ends the writing of a slice that was found on the local level.
func (p *plan) seal(num uint64, sl *format.Slice, l *ledgerOf) {
	sl.Salvaged, sl.Retry = true, format.Retry{}
	if sl.State == format.SliceUploading {
		return
	}
	sl.State, sl.Closed, sl.Reason = format.SliceUploading, p.at, format.ReasonSalvaged
	if c := p.chunks[num]; c != nil {
		sl.Tally = c.tally
		sl.Chunks = c.last + 1
		if c.last > c.at || c.tally.Rows == 0 {
			sl.Uncounted = true
			sl.Rows++ // the number of rows was only in the damaged part, so at least one
		}
	}
	l.sealed.Add(sl.Rows, sl.Raw)
}

// losePart reports slices that cannot be attributed.
func (p *plan) losePart(l *ledgerOf, file uint64, parts []uint64, reason string) {
	for _, part := range parts {
		sl := &p.slices[part].rec
		if sl.State == format.SliceImported {
			continue // its file had ended
		}
		d := format.Damage{
			FileID: format.FileID(cmp.Or(sl.Instance, p.instance, "?"), file), LastChunk: int(sl.Chunks) - 1,
			SliceID: format.SliceID(cmp.Or(sl.Instance, p.instance, "?"), cmp.Or(sl.Number, part), 0), Rows: sl.Rows, Bytes: sl.Raw, Reason: reason,
		}
		if l != nil {
			d.SinkID = l.rec.ID
		}
		if c := p.chunks[part]; c != nil && sl.Chunks == 0 {
			d.LastChunk, d.Rows, d.Bytes = int(c.last), c.tally.Rows, c.tally.Raw
		}
		p.lose(d)
	}
}

// loseOrphans reports the chunks whose slice is not known.
func (p *plan) loseOrphans() {
	for _, num := range slices.Sorted(maps.Keys(p.chunks)) {
		p.lastSlice = max(p.lastSlice, num)
		if p.slices[num] != nil || p.wiped(format.SliceKey(num)) {
			continue
		}
		first := uint32(1<<32 - 1)
		for seq := range p.chunks[num].found {
			var key [format.ChunkKeySize]byte
			if format.PutChunkKey(key[:], num, seq); !p.wiped(key[:]) {
				first = min(first, seq)
			}
		}
		c := p.chunks[num]
		if first > c.last {
			continue
		}
		p.lose(format.Damage{
			SliceID: format.SliceID(cmp.Or(p.instance, "?"), num, 0), FirstChunk: int(first), LastChunk: int(c.last),
			Rows: c.rows, Bytes: c.raw,
			Reason: "the record of the slice is lost, so its table is not known; its rows may be there already",
		})
	}
}
