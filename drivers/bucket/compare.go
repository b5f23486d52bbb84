package bucket

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"path/filepath"

	pq "github.com/parquet-go/parquet-go"

	"github.com/forebay/forebay/driver"
)

// comparePart compares a part of a file with the object that has its key, because once Import returns nil, the rows of the file are nowhere else. The
// same rows give the same bytes, unless the attempts differ in their release or options, or the table has grown between them. Then the rows are
// compared.
func (t *Tables) comparePart(ctx context.Context, key, path string) (err error) {
	folder, err := os.MkdirTemp(t.options.Scratch, scratchPrefix)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	copied := filepath.Join(folder, "stored.parquet")
	same, whole, err := t.copyPart(ctx, key, path, copied)
	if err != nil || same {
		return err
	}
	if whole {
		if same, err = sameRows(path, copied); err != nil {
			return err
		}
	}
	if !same {
		return driver.Permanent(fmt.Errorf("%s is an object with other rows than the file of that id: move it away; the file is then imported. "+
			"Two engines that run on copies of one data directory give such files: end one of them", t.objects.prefix+key))
	}
	return nil
}

const (
	// An object is read up to this size, which no part with the rows of a file has, whatever its options.
	// It is copiedForByte for each byte of the part, and copiedAtLeast at least.
	copiedForByte = 32
	copiedAtLeast = 1 << 20
)

// copyPart copies an object to a file, and reports whether it has the bytes of another file, and whether it is not too large to be copied.
func (t *Tables) copyPart(ctx context.Context, key, path, to string) (same, whole bool, err error) {
	own, err := os.Open(path)
	if err != nil {
		return false, false, err
	}
	defer own.Close()
	info, err := own.Stat()
	if err != nil {
		return false, false, err
	}
	out, err := os.Create(to)
	if err != nil {
		return false, false, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	rc, err := t.objects.open(ctx, key)
	if err != nil {
		return false, false, err
	}
	defer rc.Close()
	limit := info.Size()*copiedForByte + copiedAtLeast
	same, buf, want := true, make([]byte, 64<<10), bufio.NewReader(own)
	expected := make([]byte, len(buf))
	var size int64
	for size <= limit {
		n, err := rc.Read(buf)
		size += int64(n)
		if same {
			got, _ := io.ReadFull(want, expected[:n])
			same = got == n && string(buf[:n]) == string(expected[:n])
		}
		if _, err := out.Write(buf[:n]); err != nil {
			return false, false, err
		}
		if errors.Is(err, io.EOF) {
			return same && size == info.Size(), true, nil
		}
		if err != nil {
			return false, false, err
		}
	}
	return false, false, nil
}

// sameRows reports whether two files of Parquet have the same rows in the same order. A column that one of them lacks is NULL there. own is
// a part of this driver, while stored may be anything.
func sameRows(own, stored string) (bool, error) {
	seed := maphash.MakeSeed()
	want, rows, err := sumColumns(seed, own)
	if err != nil {
		return false, err
	}
	got, storedRows, err := sumColumns(seed, stored)
	if err != nil || rows != storedRows {
		return false, nil // it is no part of ours
	}
	nulls := nullSum(seed, rows)
	for name, sum := range want {
		if other, ok := got[name]; ok && other != sum || !ok && sum != nulls {
			return false, nil
		}
	}
	for name, sum := range got {
		if _, ok := want[name]; !ok && sum != nulls {
			return false, nil
		}
	}
	return true, nil
}

// sumColumns returns a checksum of the values of each column, by name.
func sumColumns(seed maphash.Seed, path string) (sums map[string]uint64, rows int64, err error) {
	defer func() {
		if r := recover(); r != nil { // the library panics on some damaged files
			err = fmt.Errorf("%s cannot be read: %v", path, r)
		}
	}()
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	part, err := pq.OpenFile(f, info.Size())
	if err != nil {
		return nil, 0, err
	}
	columns := part.Schema().Columns()
	hashes := make([]maphash.Hash, len(columns))
	for i := range hashes {
		hashes[i].SetSeed(seed)
	}
	reader := pq.NewReader(part)
	defer func() { err = errors.Join(err, reader.Close()) }()
	var cell []byte
	for buf := make([]pq.Row, 64); ; {
		n, err := reader.ReadRows(buf)
		for _, row := range buf[:n] {
			for _, v := range row {
				cell = addValue(&hashes[v.Column()], v, cell[:0])
			}
		}
		rows += int64(n)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, 0, err
		}
	}
	sums = make(map[string]uint64, len(columns))
	for i, path := range columns {
		sums[fmt.Sprint(path)] = hashes[i].Sum64()
	}
	return sums, rows, nil
}

// addValue adds a value, with its length, so that two values cannot be taken for one.
func addValue(h *maphash.Hash, v pq.Value, cell []byte) []byte {
	if v.IsNull() {
		_ = h.WriteByte(0)
		return cell
	}
	cell = v.AppendBytes(cell)
	_, _ = h.Write(binary.AppendUvarint([]byte{1}, uint64(len(cell))))
	_, _ = h.Write(cell)
	return cell
}

// nullSum is the checksum of rows that are all NULL.
func nullSum(seed maphash.Seed, rows int64) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for range rows {
		_ = h.WriteByte(0)
	}
	return h.Sum64()
}
