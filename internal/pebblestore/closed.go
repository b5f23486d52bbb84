package pebblestore

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// closedNote lists the files of a store that was closed in order, with their sizes. Close writes it, and it is removed before
// the store is opened again. Without it, a missing end of a file cannot be told from a write that a crash has torn.
const closedNote = "forebay-closed"

// maxNote bounds the text of the note, in bytes.
const maxNote = 64 << 20

// NoteClosed records that the store was closed in order, for the next [CheckClosed].
func NoteClosed(disk vfs.FS, dir string) error {
	names, err := disk.List(dir)
	if err != nil {
		return err
	}
	slices.Sort(names)
	var text strings.Builder
	for _, name := range names {
		if _, kind := FileKind(name); kind == "" && !strings.HasPrefix(name, "MANIFEST-") {
			continue
		}
		info, err := disk.Stat(disk.PathJoin(dir, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%d %s\n", info.Size(), name)
	}
	fmt.Fprintf(&text, "%08x\n", MaskedSum([]byte(text.String())))
	return WriteNote(disk, dir, closedNote, text.String())
}

// CheckClosed compares the files with what [NoteClosed] has recorded, if it has. A record that is damaged itself counts as
// damage, because the end of a log may then be missing unseen.
func CheckClosed(disk vfs.FS, dir string) error {
	text, err := ReadNote(disk, disk.PathJoin(dir, closedNote), maxNote)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	names, err := disk.List(dir)
	if err != nil {
		return err
	}
	body := strings.TrimSuffix(text, "\n")
	body = body[:strings.LastIndexByte(body, '\n')+1]
	if fmt.Sprintf("%s%08x\n", body, MaskedSum([]byte(body))) != text {
		return Damaged("%s, which says how long the files were, is damaged: missing data at the end of a log cannot be detected", closedNote)
	}
	// If another process has opened the store since, it has other files, and the note is stale.
	for _, name := range names {
		if _, kind := FileKind(name); (kind != "" || strings.HasPrefix(name, "MANIFEST-")) && !strings.Contains(body, " "+name+"\n") {
			return nil
		}
	}
	for line := range strings.Lines(body) {
		bad := Damaged
		if strings.Contains(line, "MANIFEST") {
			bad = DamagedIndex
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

// ForgetClosed removes the record of [NoteClosed], durably, before the store changes.
func ForgetClosed(disk vfs.FS, dir string) error {
	err := disk.Remove(disk.PathJoin(dir, closedNote))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return SyncDir(disk, dir)
}
