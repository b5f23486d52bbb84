package sim

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/driver"
)

// chunkID names a stored chunk by the numbers in its key.
type chunkID struct {
	slice uint64
	seq   uint32
}

// storedChunk is a chunk as it is on the disk.
type storedChunk struct {
	chunkID
	key, value []byte
}

// chunkHead is the size of the header of a chunk. Its byte 1 is the encoding of the rows.
const chunkHead = 56

// damage changes bytes of the disk while no process has it open, either in the value of some chunks, where the checksum of the
// chunk finds it, or in a file of the store, where the checksum of a block finds it.
func (r *run) damage() {
	db, err := pebble.Open(r.localDir(), &pebble.Options{FS: r.disk.mem, FormatMajorVersion: pebble.FormatNewest, Logger: quiet{}, EventListener: patient()})
	if err != nil {
		r.t.Errorf("open the store to damage it: %v", err)
		return
	}
	chunks, err := readChunks(db)
	if err != nil {
		r.t.Errorf("read the chunks: %v", err)
	}
	for _, c := range chunks {
		if _, known := r.snapshots[c.chunkID]; known {
			continue // and perhaps damaged since
		}
		rows, err := chunkRows(c.value)
		if err != nil {
			r.t.Errorf("chunk %d of slice %d: %v", c.seq, c.slice, err)
		}
		r.snapshots[c.chunkID] = rows
	}
	if len(chunks) == 0 {
		r.tell("there is nothing to damage")
	} else if r.extra.IntN(3) == 0 && r.damageFile(db, chunks) {
		return
	} else {
		r.damageValues(db, chunks)
	}
	if err := db.Close(); err != nil {
		r.t.Errorf("close the store: %v", err)
	}
}

func readChunks(db *pebble.DB) (chunks []storedChunk, err error) {
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte("c"), UpperBound: []byte("d")})
	if err != nil {
		return nil, err
	}
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			break // a damaged block from before
		}
		key := bytes.Clone(it.Key())
		id := chunkID{binary.BigEndian.Uint64(key[1:]), binary.BigEndian.Uint32(key[9:])}
		chunks = append(chunks, storedChunk{id, key, bytes.Clone(value)})
	}
	_ = it.Close() // reports damage again
	return chunks, nil
}

// chunkRows are the names of the rows in a chunk.
func chunkRows(value []byte) (names []string, err error) {
	if len(value) < chunkHead {
		return nil, io.ErrUnexpectedEOF
	}
	rows, err := decodeRows(driver.Encoding(value[1]), io.NopCloser(bytes.NewReader(value[chunkHead:])))
	for _, row := range rows {
		names = append(names, nameOf(row))
	}
	return names, err
}

// damageValues changes the value of one to three neighbouring chunks.
func (r *run) damageValues(db *pebble.DB, chunks []storedChunk) {
	at := r.extra.IntN(len(chunks))
	for _, c := range chunks[at:min(len(chunks), at+1+r.extra.IntN(3))] {
		value := c.value
		if len(value) == 0 {
			continue // cut off before
		}
		how := pick(r.extra, "flip", "flip", "cut off")
		place := r.extra.IntN(len(value))
		if how == "flip" {
			value[place] ^= byte(1 + r.extra.IntN(255))
		} else {
			value = value[:place]
		}
		r.tell("%s chunk %d of slice %d at %d of %d bytes", how, c.seq, c.slice, place, len(c.value))
		r.sum.add("disk: chunk damaged, "+how, 1)
		if err := db.Set(c.key, value, pebble.Sync); err != nil {
			r.t.Errorf("damage a chunk: %v", err)
		}
		r.damaged = true
		r.hit(c)
	}
}

// hit notes the rows of a chunk that is damaged now.
func (r *run) hit(chunks ...storedChunk) {
	for _, c := range chunks {
		for _, name := range r.snapshots[c.chunkID] {
			r.hits[name] = true
		}
	}
}

// blockRoom is more than a block of the store can hold in addition to one chunk.
const blockRoom = 16 << 10

// damageFile flips a byte of a store file, in a block that holds only chunks. If it returns true it has closed the store. It
// returns false if no block certainly holds only chunks, because damage of other records is not simulated.
func (r *run) damageFile(db *pebble.DB, chunks []storedChunk) bool {
	behind, at := 0, -1
	for i := len(chunks) - 1; i >= 0 && at < 0; i-- {
		if behind > blockRoom && len(chunks[i].value) > chunkHead+32 {
			at = i
		}
		behind += len(chunks[i].value)
	}
	if at < 0 {
		return false
	}
	if err := errors.Join(db.Flush(), db.Close()); err != nil {
		r.t.Errorf("flush the store: %v", err)
		return true
	}
	probe := chunks[at].value[chunkHead : chunkHead+32]
	names, err := r.disk.mem.List(r.localDir())
	if err != nil {
		r.t.Errorf("list the files of the store: %v", err)
	}
	slices.Sort(names)
	for _, name := range names {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		data, err := r.disk.mem.UnsafeGetFileDataBuffer(r.localDir() + "/" + name)
		if err != nil {
			r.t.Errorf("read %s: %v", name, err)
			continue
		}
		if i := bytes.Index(data, probe); i >= 0 {
			data[i] ^= 1
			r.tell("flip a byte of chunk %d of slice %d in %s", chunks[at].seq, chunks[at].slice, name)
			r.sum.add("disk: block damaged", 1)
			r.damaged = true
			r.hit(chunks...) // which of them stand in the block is not known
		}
	}
	return true
}

// checkDamage compares the reported damage with the damaged rows, and adds its rows to lost.
func (r *run) checkDamage(stats buffer.Stats, damage []buffer.Damage, lost map[string]bool) {
	sum := map[string]int64{}
	for _, d := range damage {
		sum[d.SinkID] += d.Rows
		if d.Rows < 1 || d.At.IsZero() || d.Reason == "" || d.FileID == "" {
			r.t.Errorf("damage is reported as %+v", d)
		}
		slice, err := sliceNumber(d.SliceID)
		if err != nil {
			r.t.Errorf("damage of slice %q: %v", d.SliceID, err)
		}
		there := int64(0)
		for seq := d.FirstChunk; seq <= d.LastChunk; seq++ {
			names := r.snapshots[chunkID{slice, uint32(seq)}]
			there += int64(len(names))
			for _, name := range names {
				lost[rowKey(d.SinkID, name)] = true
			}
		}
		// How many rows a damaged end of an open slice had is unknown, so it counts as one.
		if d.Rows > there {
			r.t.Errorf("slice %s, chunks %d to %d: %d rows are reported as damaged, there were %d",
				d.SliceID, d.FirstChunk, d.LastChunk, d.Rows, there)
		}
	}
	for _, st := range stats.Sinks {
		if st.Damaged.Rows != sum[st.ID] {
			r.t.Errorf("sink %s: the ledger has %d damaged rows, %d are reported", st.ID, st.Damaged.Rows, sum[st.ID])
		}
	}
}

// sliceNumber reads the number from the id of a slice, such as instance-s000000000001, perhaps with a revision.
func sliceNumber(id string) (uint64, error) {
	parts := strings.Split(id, "-")
	if len(parts) < 2 || parts[1][0] != 's' {
		return 0, errors.New("no id of a slice")
	}
	return strconv.ParseUint(parts[1][1:], 16, 64)
}

// checkStore looks into the store that was closed for slices and chunks, and returns the damage that it knows of.
func (r *run) checkStore() (damage []buffer.Damage) {
	db, err := pebble.Open(r.localDir(), &pebble.Options{FS: r.disk.mem, ReadOnly: true, Logger: quiet{}, EventListener: patient()})
	if err != nil {
		r.t.Errorf("open the store: %v", err)
		return nil
	}
	defer db.Close()
	// The chunks come last, because a damaged block of the store also hides them.
	for _, kind := range []string{"q", "l", "c"} {
		it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte(kind), UpperBound: []byte{kind[0] + 1}})
		if err != nil {
			r.t.Errorf("read the store: %v", err)
			return damage
		}
		for ok := it.First(); ok; ok = it.Next() {
			if kind != "q" {
				r.t.Errorf("the store has the key %q left", it.Key())
				continue
			}
			var d buffer.Damage
			if err := json.Unmarshal(it.Value(), &d); err != nil {
				r.t.Errorf("record of damage: %v", err)
			}
			damage = append(damage, d)
		}
		if err := it.Close(); err != nil && !r.damaged {
			r.t.Errorf("read the store: %v", err)
		}
	}
	return damage
}

// patient ignores reports of earlier damage. The default ends the process.
func patient() *pebble.EventListener {
	return &pebble.EventListener{DataCorruption: func(pebble.DataCorruptionInfo) {}}
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}
