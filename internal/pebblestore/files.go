package pebblestore

import (
	"cmp"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// CheckFiles looks for damage that pebble would not notice, or would take for the end that a crash leaves, and compares the files with
// the record of [NoteClosed]. No process may have the store open. It changes nothing and returns a [*DamageError].
func CheckFiles(disk vfs.FS, dir string) error {
	if err := CheckClosed(disk, dir); err != nil {
		return err
	}
	_, err := inspectFiles(disk, dir)
	return err
}

// logFiles are the logs of a store that no process has open.
type logFiles struct {
	idle   []string         // paths of logs whose rows are in tables
	needed map[string]int64 // the others: path to the end of the last whole chunk
	list   string           // path of the list of tables (the MANIFEST), empty in a new store
}

// content returns how many bytes of logs an opening writes to tables.
func (l *logFiles) content() (n int64) {
	for _, end := range l.needed {
		n += end
	}
	return n
}

// inspectFiles is [CheckFiles] that also returns the content of the logs.
func inspectFiles(disk vfs.FS, dir string) (found logFiles, err error) {
	names, err := disk.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return found, nil
	}
	if err != nil {
		return found, err
	}
	reached, err := readReach(disk, dir)
	if err != nil {
		return found, err
	}
	found.needed = map[string]int64{}
	slices.Sort(names)
	manifest, table := "", ""
	logs, newest := map[uint64]bool{}, uint64(0)
	var tables []uint64
	for _, name := range names {
		num, kind := FileKind(name)
		switch kind {
		case "log":
			logs[num], newest = true, max(newest, num)
		case "sst":
			table = name
			tables = append(tables, num)
		}
		if rest, ok := strings.CutPrefix(name, "marker.manifest."); ok {
			_, manifest, _ = strings.Cut(rest, ".") // the names ascend, and the last counts
		}
	}
	var needed uint64 // logs before it wait to be written over
	var failure error
	if manifest != "" {
		found.list = disk.PathJoin(dir, manifest)
		if needed, failure = checkManifest(disk, found.list, logs, tables); failure != nil {
			needed = 0
		}
	}
	for _, name := range names {
		num, kind := FileKind(name)
		if kind != "log" {
			continue
		}
		path := disk.PathJoin(dir, name)
		if num < needed {
			found.idle = append(found.idle, path)
			continue
		}
		damaged, end, err := checkLog(disk, path, num, reached, num < newest)
		if err != nil {
			return found, err
		}
		found.needed[path] = end
		if len(damaged) > 0 {
			g := damaged[0]
			return found, Damaged("log %s cannot be read from byte %d to byte %d", name, g.From, g.To)
		}
	}
	// Without the list of tables a later log is the only sign that the rows of an earlier one are in tables.
	listed := manifest != "" && failure == nil
	if !logs[reached.log] && reached.log > 0 && (listed && reached.log >= needed || !listed && newest < reached.log) {
		return found, Damaged("log %06d, which had %d bytes, is missing", reached.log, reached.length)
	}
	if manifest == "" {
		if table != "" {
			return found, DamagedIndex("no list of tables names %s", table)
		}
		return found, nil
	}
	return found, failure
}

// checkManifest reads the list of tables and returns the number of the oldest log whose rows are in no table.
//
// Pebble takes unreadable bytes for the end of the list, and deletes the tables that it then does not know. But each change of the
// list was synced before the next was written, so a change that follows unreadable bytes proves that they are damage. Unreadable bytes at
// the end may be a change that a crash has torn. Then the log that the change would have made superfluous is still there. A list that
// was cut between two changes has no unreadable bytes. Then the tables of the lost changes are there, with numbers that the rest of
// the list had not given out, and no log has their rows.
func checkManifest(disk vfs.FS, path string, logs map[uint64]bool, tables []uint64) (needed uint64, err error) {
	f, err := disk.Open(path, vfs.SequentialReadsOption)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, DamagedIndex("the list of tables is missing: %w", err)
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	const head = 7
	var (
		block [logBlock]byte
		bad   = int64(-1)
		edit  []byte
		log   uint64 // the oldest log that is needed
		next  uint64 // the first number that no file has

		changes int
	)
	for base := int64(0); ; base += logBlock {
		n, err := io.ReadFull(f, block[:])
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, err
		}
		for at := 0; at < n; {
			rest := block[at:n]
			if len(rest) < head && allZero(rest) && n == logBlock {
				break
			}
			size := 0
			if len(rest) >= head && rest[6] >= 1 && rest[6] <= 4 {
				size = head + int(binary.LittleEndian.Uint16(rest[4:]))
			}
			if size == 0 || size > len(rest) || MaskedSum(rest[6:size]) != binary.LittleEndian.Uint32(rest) {
				if bad < 0 {
					bad = base + int64(at)
				}
				at++
				continue
			}
			if bad >= 0 {
				return 0, DamagedIndex("the list of tables cannot be read from byte %d to byte %d", bad, base+int64(at))
			}
			if rest[6] <= 2 {
				edit = edit[:0]
			}
			edit = append(edit, rest[head:size]...)
			if rest[6] == 1 || rest[6] == 4 {
				changes++
				num, unused := editHead(edit)
				log, next = cmp.Or(num, log), cmp.Or(unused, next)
			}
			at += size
		}
		if n < logBlock {
			break
		}
	}
	switch base := disk.PathBase(path); {
	case changes == 0:
		return 0, DamagedIndex("the list of tables %s is empty", base)
	case bad >= 0 && !logs[log]:
		return 0, DamagedIndex("the list of tables %s cannot be read from byte %d on, and it is not the end that a crash leaves: log %d is not there",
			base, bad, log)
	}
	for _, table := range tables {
		unlogged := true
		for num := range logs {
			unlogged = unlogged && (num < log || num > table)
		}
		if table >= next && unlogged {
			return 0, DamagedIndex("the list of tables %s has lost its end: it does not name table %06d, and no log has the rows of that",
				disk.PathBase(path), table)
		}
	}
	return log, nil
}

// editHead reads the start of a change of the list of tables, which is the number of the oldest log that is needed and the first number that
// no file has. Zero means that the change does not say.
func editHead(edit []byte) (log, next uint64) {
	for {
		tag, n := binary.Uvarint(edit)
		if n <= 0 {
			return log, next
		}
		edit = edit[n:]
		value, n := binary.Uvarint(edit)
		if n <= 0 {
			return log, next
		}
		edit = edit[n:]
		switch tag {
		case 1: // the name of the comparer
			if value > uint64(len(edit)) {
				return log, next
			}
			edit = edit[value:]
		case 2:
			log = value
		case 3:
			return log, value
		case 9: // a log of an old release
		default:
			return log, next
		}
	}
}

// MaskedSum is the checksum of the store's logs.
func MaskedSum(b []byte) uint32 {
	crc := crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
	return (crc>>15 | crc<<17) + 0xa282ead8
}

// FileKind returns the number and the kind ("log", "sst", else "") of a file of the store.
func FileKind(name string) (num uint64, kind string) {
	base, kind, _ := strings.Cut(name, ".")
	base, _, _ = strings.Cut(base, "-")
	num, err := strconv.ParseUint(base, 10, 64)
	if err != nil || kind != "log" && kind != "sst" {
		return 0, ""
	}
	return num, kind
}
