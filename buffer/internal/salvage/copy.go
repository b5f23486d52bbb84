package salvage

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/forebay/forebay/buffer/internal/format"
	"github.com/forebay/forebay/internal/pebblestore"
)

// copySeq is the order of the first line of the copy. Of two versions that are equally far, the version of the copy counts. The copy contains each change of
// the store, and the records that a damaged store still contains may be older.
const copySeq = 1 << 62

// takeCopy notes the records of sinks, files and slices that format.CopyFile has. Without the file, or if the file is the copy of a different store, it
// notes nothing. A damaged line is passed over.
func (f *found) takeCopy(disk vfs.FS, dir string) error {
	path := disk.PathJoin(dir, format.CopyFile)
	text, err := pebblestore.ReadNote(disk, path, math.MaxInt64)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("salvage %s: %w", path, err)
	}
	first, rest, _ := bytes.Cut([]byte(text), []byte("\n"))
	kind, _, instance, ok := format.ParseCopyLine(first)
	if !ok || kind != format.CopyInstance || f.instance != "" && f.instance != string(instance) {
		return nil
	}
	f.instance = string(instance)
	seq := uint64(copySeq)
	for line := range bytes.Lines(rest) {
		seq++
		kind, num, content, ok := format.ParseCopyLine(bytes.TrimSuffix(line, []byte("\n")))
		e := pebblestore.Entry{Kind: pebble.InternalKeyKindSet, Value: content, Seq: seq}
		switch {
		case !ok:
			continue
		case kind == format.PrefixSink && num <= math.MaxUint32:
			e.Key = format.SinkKey(uint32(num))
		case kind == format.PrefixFile:
			e.Key = format.FileKey(num)
		case kind == format.PrefixSlice:
			e.Key = format.SliceKey(num)
		}
		if len(content) == 0 {
			e.Kind = pebble.InternalKeyKindDelete
		}
		if err := f.take(e); err != nil {
			return err
		}
	}
	return nil
}
