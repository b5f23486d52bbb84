package buffer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/internal/storefs"
)

// closedNote lists the files of a store that was closed in order, with their sizes. It is made by Close and removed before
// the store is opened. So after an ordinary end of the process nothing can be missing at the end of a file, where damage
// otherwise looks like a write that a crash has torn.
const closedNote = "forebay-closed"

// checkStore looks for damage that the store would not notice, or would take for a crash. It changes nothing.
func checkStore(disk vfs.FS, dir string) error {
	names, err := disk.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	slices.Sort(names)
	if err := checkClosed(disk, dir, names); err != nil {
		return err
	}
	manifest, table := "", ""
	logs := map[uint64]bool{}
	for _, name := range names {
		num, kind := fileKind(name)
		switch kind {
		case "log":
			logs[num] = true
		case "sst":
			table = name
		}
		if rest, ok := strings.CutPrefix(name, "marker.manifest."); ok {
			_, manifest, _ = strings.Cut(rest, ".") // the names ascend, and the last counts
		}
	}
	var needed uint64 // logs before it wait to be written over
	var failure error
	if manifest != "" {
		if needed, failure = checkManifest(disk, disk.PathJoin(dir, manifest), logs); failure != nil {
			needed = 0
		}
	}
	for _, name := range names {
		num, kind := fileKind(name)
		if kind != "log" || num < needed {
			continue
		}
		damaged, err := checkLog(disk, disk.PathJoin(dir, name), uint32(num))
		if err != nil {
			return err
		}
		if len(damaged) > 0 {
			g := damaged[0]
			return badRecord("log %s cannot be read from byte %d to byte %d", name, g.from, g.to)
		}
	}
	if manifest == "" {
		if table != "" {
			return badIndex("no list of tables names %s", table)
		}
		return nil
	}
	return failure
}

// checkManifest reads the list of tables. The store takes what it cannot read in it for its end, and deletes the tables
// that it then does not know. Every change of the list was on disk before the next was written, so a change behind what
// cannot be read proves that it was there. At the end it may be a change that a crash has torn; then the log that it
// would have made superfluous is still there. needed is the number of the oldest log that holds what no table has.
func checkManifest(disk vfs.FS, path string, logs map[uint64]bool) (needed uint64, err error) {
	f, err := disk.Open(path, vfs.SequentialReadsOption)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, badIndex("the list of tables is missing: %w", err)
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
			if size == 0 || size > len(rest) || maskedSum(rest[6:size]) != binary.LittleEndian.Uint32(rest) {
				if bad < 0 {
					bad = base + int64(at)
				}
				at++
				continue
			}
			if bad >= 0 {
				return 0, badIndex("the list of tables cannot be read from byte %d to byte %d", bad, base+int64(at))
			}
			if rest[6] <= 2 {
				edit = edit[:0]
			}
			edit = append(edit, rest[head:size]...)
			if rest[6] == 1 || rest[6] == 4 {
				if num, ok := neededLog(edit); ok {
					log = num
				}
			}
			at += size
		}
		if n < logBlock {
			break
		}
	}
	if bad >= 0 && !logs[log] {
		return 0, badIndex("the list of tables cannot be read from byte %d on, and it is not the end that a crash leaves: log %d is not there",
			bad, log)
	}
	return log, nil
}

// neededLog reads the number of the oldest log that is needed from a change of the list of tables, where it stands first
// or after the name of the order of the keys.
func neededLog(edit []byte) (num uint64, ok bool) {
	for {
		tag, n := binary.Uvarint(edit)
		if n <= 0 {
			return 0, false
		}
		edit = edit[n:]
		value, n := binary.Uvarint(edit)
		if n <= 0 {
			return 0, false
		}
		edit = edit[n:]
		switch tag {
		case 1:
			if value > uint64(len(edit)) {
				return 0, false
			}
			edit = edit[value:]
		case 2:
			return value, true
		default:
			return 0, false
		}
	}
}

// maskedSum is the checksum of the store's logs.
func maskedSum(b []byte) uint32 {
	crc := crc32.Checksum(b, castagnoli)
	return (crc>>15 | crc<<17) + 0xa282ead8
}

// noteClosed writes closedNote for a store that was closed.
func noteClosed(disk vfs.FS, dir string) error {
	names, err := disk.List(dir)
	if err != nil {
		return err
	}
	slices.Sort(names)
	var text strings.Builder
	for _, name := range names {
		if _, kind := fileKind(name); kind == "" && !strings.HasPrefix(name, "MANIFEST-") {
			continue
		}
		info, err := disk.Stat(disk.PathJoin(dir, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%d %s\n", info.Size(), name)
	}
	fmt.Fprintf(&text, "%08x\n", maskedSum([]byte(text.String())))
	return writeNote(disk, dir, closedNote, text.String())
}

// checkClosed compares the files with closedNote, if it is there. A note that is damaged itself says nothing.
func checkClosed(disk vfs.FS, dir string, names []string) error {
	if !slices.Contains(names, closedNote) {
		return nil
	}
	text, err := readNote(disk, disk.PathJoin(dir, closedNote))
	if err != nil {
		return err
	}
	body := strings.TrimSuffix(text, "\n")
	body = body[:strings.LastIndexByte(body, '\n')+1]
	if fmt.Sprintf("%s%08x\n", body, maskedSum([]byte(body))) != text {
		return nil
	}
	// Where somebody else has opened the store since, it has other files, and the note is of the past.
	for _, name := range names {
		if _, kind := fileKind(name); (kind != "" || strings.HasPrefix(name, "MANIFEST-")) && !strings.Contains(body, " "+name+"\n") {
			return nil
		}
	}
	for line := range strings.Lines(body) {
		bad := badRecord
		if strings.Contains(line, "MANIFEST") {
			bad = badIndex
		}
		digits, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		size, _ := strconv.ParseInt(digits, 10, 64)
		info, err := disk.Stat(disk.PathJoin(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return bad("%s of the store was there when it was closed, and is missing: what only it held is lost", name)
		}
		if err != nil {
			return err
		}
		if info.Size() < size {
			return bad("%s of the store had %d bytes when it was closed, and has %d: what stood in the rest is lost", name, size, info.Size())
		}
	}
	return nil
}

// forgetClosed removes closedNote, durably: the store is about to change.
func forgetClosed(disk vfs.FS, dir string) error {
	err := disk.Remove(disk.PathJoin(dir, closedNote))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return storefs.SyncDir(disk, dir)
}
