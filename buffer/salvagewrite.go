package buffer

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/internal/pebblestore"
)

// salvageBatch is how many bytes of chunks are written at once.
const salvageBatch = 4 << 20

// write decides what becomes of everything that was found and writes the new store.
func (s *salvage) write(opts Options) (err error) {
	folder := s.disk.PathJoin(s.dir, salvageFolder)
	if err := s.disk.RemoveAll(folder); err != nil {
		return err
	}
	st, err := openStore(folder, opts, false, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	s.out = st.DB.NewBatch()
	s.join()
	keep := s.settle()
	// The chunks come first: a store without their records has none.
	records := s.out
	s.out = st.DB.NewBatch()
	written := map[uint64]map[uint32]bool{} // whole ones
	flush := func() error {
		err := st.DB.Apply(s.out, pebble.NoSync)
		s.out = st.DB.NewBatch()
		return err
	}
	set := func(e entry) error {
		_ = s.out.Set(e.key, e.value, nil) // a plain batch cannot fail
		if s.out.Len() < salvageBatch {
			return nil
		}
		return flush()
	}
	err = s.each(func(e entry) error {
		if len(e.key) == 0 || e.kind != pebble.InternalKeyKindSet && e.kind != pebble.InternalKeyKindSetWithDelete || s.wiped(e.key) {
			return nil
		}
		if e.key[0] == format.PrefixReceipt && len(e.key) == format.ReceiptKeySize { // written once and never changed
			return set(e)
		}
		if len(e.key) != format.ChunkKeySize || e.key[0] != format.PrefixChunk {
			return nil
		}
		num, seq := format.ParseChunkKey(e.key)
		if !keep[num] || written[num][seq] {
			return nil
		}
		if written[num] == nil {
			written[num] = map[uint32]bool{}
		}
		_, _, bad := format.ParseChunk(e.value)
		if bad != nil && s.chunks[num].found[seq] {
			return nil // another copy of it is whole
		}
		written[num][seq] = bad == nil
		return set(e)
	}, false)
	if err == nil {
		err = flush()
	}
	if err == nil {
		err = st.DB.Apply(records, pebble.Sync)
	}
	if err == nil {
		err = st.DB.Flush()
	}
	return err
}

// settle makes the records of the new store and returns the slices whose chunks it needs.
func (s *salvage) settle() (keep map[uint64]bool) {
	keep = map[uint64]bool{}
	set := func(key, value []byte) { _ = s.out.Set(key, value, nil) }
	bySink := map[uint32]*ledgerOf{}
	sink := func(num uint32, id string) *ledgerOf {
		l := bySink[num]
		if l == nil {
			l = &ledgerOf{}
			if v := s.sinks[num]; v != nil {
				l.rec = v.rec
			} else {
				l.rec = format.Sink{ID: cmp.Or(id, fmt.Sprintf("lost-%d", num))}
			}
			bySink[num] = l
		}
		return l
	}
	for num := range s.sinks {
		if !s.wiped(format.SinkKey(num)) {
			sink(num, "")
		}
	}
	parts := map[uint64][]uint64{} // slices by file
	for _, num := range slices.Sorted(maps.Keys(s.slices)) {
		s.lastSlice = max(s.lastSlice, num)
		if sl := s.slices[num]; s.wiped(format.SliceKey(num)) {
			delete(s.slices, num)
		} else {
			s.lastFile = max(s.lastFile, sl.rec.File)
			parts[sl.rec.File] = append(parts[sl.rec.File], num)
		}
	}
	for _, num := range slices.Sorted(maps.Keys(s.files)) {
		s.lastFile = max(s.lastFile, num)
		f := &s.files[num].rec
		if s.wiped(format.FileKey(num)) {
			delete(s.files, num)
			continue
		}
		l := sink(f.Sink, f.SinkID)
		f.Instance, f.SinkID, f.Copied, f.Salvaged = cmp.Or(f.Instance, s.instance), l.rec.ID, true, true
		if f.Instance == "" {
			s.losePart(l, num, parts[num], "the name of the data directory is lost, and with it the ids of what waited")
			continue
		}
		waiting := s.settleFile(num, f, l, parts[num], keep)
		delete(parts, num)
		if waiting == 0 && !f.Done() {
			s.lose(format.Damage{
				SinkID: l.rec.ID, FileID: format.FileID(f.Instance, num), FirstChunk: -1, LastChunk: -1, Uncounted: true,
				Reason: "the records of its slices are lost",
			})
			continue
		}
		set(format.FileKey(num), format.Encode(f))
	}
	for _, num := range slices.Sorted(maps.Keys(parts)) {
		s.losePart(nil, num, parts[num], "the record of its file is lost, so its table is not known; its rows may be there already")
	}
	for _, num := range slices.Sorted(maps.Keys(bySink)) {
		l := bySink[num]
		l.balance(s)
		set(format.SinkKey(num), format.Encode(&l.rec))
	}
	for _, num := range slices.Sorted(maps.Keys(s.slices)) {
		if keep[num] || sliceRank(s.slices[num].rec.State) >= sliceRank(format.SliceUploaded) && s.files[s.slices[num].rec.File] != nil {
			set(format.SliceKey(num), format.Encode(&s.slices[num].rec))
		}
	}
	s.loseOrphans()
	set([]byte(format.KeyFormat), []byte(strconv.Itoa(format.Version)))
	set([]byte(format.KeyInstance), []byte(newInstance()))
	set([]byte(format.KeyCounters), format.EncodeCounters(s.lastFile, s.lastSlice))
	for key, value := range s.damage {
		if !s.wiped([]byte(key)) {
			set([]byte(key), value)
		}
	}
	for i, d := range s.found {
		set(format.DamageKey(0, uint32(s.now.Unix()), uint32(i)), format.Encode(&d)) // no slice has the number 0
	}
	return keep
}

// ledgerOf gathers what the ledger of a sink must hold.
type ledgerOf struct {
	rec     format.Sink
	waiting format.Count
	sealed  format.Count // of slices that were open, and so are not in rec.Sealed
}

// balance makes the ledger hold. Rows that it knew and that are nowhere are damaged.
func (l *ledgerOf) balance(s *salvage) {
	r := &l.rec
	sum := r.Ended()
	sum.Add(l.waiting.Rows, l.waiting.Bytes)
	r.Sealed.Add(l.sealed.Rows, l.sealed.Bytes)
	if lost := r.Sealed.Rows - sum.Rows; lost > 0 {
		size := max(0, r.Sealed.Bytes-sum.Bytes)
		r.Damaged.Add(lost, size)
		sum.Add(lost, size)
		s.lose(format.Damage{
			SinkID: r.ID, FirstChunk: -1, LastChunk: -1, Rows: lost, Bytes: size,
			Reason: "the ledger has rows that no record speaks of: they are lost, or in the table and the record of that is lost",
		})
	}
	r.Sealed = sum
}

// settleFile decides about a file and its slices, and returns how many slices wait.
func (s *salvage) settleFile(num uint64, f *format.File, l *ledgerOf, parts []uint64, keep map[uint64]bool) (waiting int) {
	over := f.Done()
	local := 0
	for _, part := range parts {
		sl := &s.slices[part].rec
		sl.Instance = cmp.Or(sl.Instance, s.instance)
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
			keep[part] = true
			s.seal(part, sl, l)
		}
		l.waiting.Add(sl.Rows, sl.Raw)
	}
	if over || waiting == 0 {
		return waiting
	}
	if f.State == format.FileWriting {
		f.Closed, f.Reason = s.now, reasonSalvaged
	}
	f.Retry, f.State = format.Retry{}, format.FileClosing
	if local == 0 {
		f.State = format.FileImporting
		f.Sealed = s.now
	}
	return waiting
}

// seal ends the writing of a slice that was found on the local level.
func (s *salvage) seal(num uint64, sl *format.Slice, l *ledgerOf) {
	sl.Salvaged, sl.Retry = true, format.Retry{}
	if sl.State == format.SliceUploading {
		return
	}
	sl.State, sl.Closed, sl.Reason = format.SliceUploading, s.now, reasonSalvaged
	if c := s.chunks[num]; c != nil {
		sl.Tally = c.tally
		sl.Chunks = c.last + 1
		if c.last > c.at || c.tally.Rows == 0 {
			sl.Uncounted = true
			sl.Rows++ // how many there were stood only in what is damaged: at least one
		}
	}
	l.sealed.Add(sl.Rows, sl.Raw)
}

// losePart reports slices that cannot be attributed.
func (s *salvage) losePart(l *ledgerOf, file uint64, parts []uint64, reason string) {
	for _, part := range parts {
		sl := &s.slices[part].rec
		if sl.State == format.SliceImported {
			continue // its file had ended
		}
		d := format.Damage{
			FileID: format.FileID(cmp.Or(sl.Instance, s.instance, "?"), file), LastChunk: int(sl.Chunks) - 1,
			SliceID: format.SliceID(cmp.Or(sl.Instance, s.instance, "?"), part, 0), Rows: sl.Rows, Bytes: sl.Raw, Reason: reason,
		}
		if l != nil {
			d.SinkID = l.rec.ID
		}
		if c := s.chunks[part]; c != nil && sl.Chunks == 0 {
			d.LastChunk, d.Rows, d.Bytes = int(c.last), c.tally.Rows, c.tally.Raw
		}
		s.lose(d)
	}
}

// loseOrphans reports the chunks whose slice is not known.
func (s *salvage) loseOrphans() {
	for _, num := range slices.Sorted(maps.Keys(s.chunks)) {
		s.lastSlice = max(s.lastSlice, num)
		if s.slices[num] != nil || s.wiped(format.SliceKey(num)) {
			continue
		}
		first := uint32(1<<32 - 1)
		for seq := range s.chunks[num].found {
			var key [format.ChunkKeySize]byte
			if format.PutChunkKey(key[:], num, seq); !s.wiped(key[:]) {
				first = min(first, seq)
			}
		}
		c := s.chunks[num]
		if first > c.last {
			continue
		}
		s.lose(format.Damage{
			SliceID: format.SliceID(cmp.Or(s.instance, "?"), num, 0), FirstChunk: int(first), LastChunk: int(c.last),
			Rows: c.rows, Bytes: c.raw,
			Reason: "the record of the slice is lost, so its table is not known; its rows may be there already",
		})
	}
}

// swapStores puts the new store in the place of the damaged one. A note says how far it has come, so that after a crash
// it goes on there: first everything old goes out, then everything new comes in.
func swapStores(disk vfs.FS, dir, aside string) error {
	if err := pebblestore.SyncDir(disk, disk.PathJoin(dir, salvageFolder)); err != nil {
		return err
	}
	if err := pebblestore.WriteNote(disk, dir, salvageNote, "out "+aside+"\n"); err != nil {
		return err
	}
	return finishSwap(disk, dir)
}

// finishSwap ends a swap that has begun, if there is one.
func finishSwap(disk vfs.FS, dir string) error {
	note := disk.PathJoin(dir, salvageNote)
	text, err := readNote(disk, note)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	step, aside, _ := strings.Cut(strings.TrimSpace(text), " ")
	fresh := disk.PathJoin(dir, salvageFolder)
	if step == "out" {
		out := disk.PathJoin(dir, aside)
		if err := disk.MkdirAll(out, 0o700); err != nil {
			return err
		}
		if err := moveStore(disk, dir, out); err != nil {
			return err
		}
		if err := forgetClosed(disk, dir); err != nil {
			return err
		}
		if err := pebblestore.WriteNote(disk, dir, salvageNote, "in "+aside+"\n"); err != nil {
			return err
		}
	} else if step != "in" {
		return fmt.Errorf("%s is damaged: when %s holds a store, move its files one folder up, and remove the note", note, fresh)
	}
	if _, err := disk.Stat(fresh); err == nil {
		if err := moveStore(disk, fresh, dir); err != nil {
			return err
		}
		if err := disk.RemoveAll(fresh); err != nil {
			return err
		}
	}
	if err := disk.Remove(note); err != nil {
		return err
	}
	return pebblestore.SyncDir(disk, dir)
}

// moveStore moves the files of a store.
func moveStore(disk vfs.FS, from, to string) error {
	names, err := disk.List(from)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == "LOCK" || strings.HasPrefix(name, "forebay-") || strings.HasPrefix(name, damagedPrefix) {
			continue
		}
		if err := disk.Rename(disk.PathJoin(from, name), disk.PathJoin(to, name)); err != nil {
			return err
		}
	}
	return errors.Join(pebblestore.SyncDir(disk, to), pebblestore.SyncDir(disk, from))
}

func readNote(disk vfs.FS, path string) (string, error) {
	f, err := disk.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 64<<20))
	return string(text), err
}
