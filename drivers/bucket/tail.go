package bucket

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/parts"
	"github.com/forebay/forebay/drivers/parquet"
)

// Tail implements [driver.Tailer]. It reads the parts of the files that are last by id, which is roughly the order of the imports. It reads small
// objects at once, and of larger objects the bytes for the last rows, up to 16 MiB in all. It lists the whole table, because a store lists names in
// ascending order only.
func (t *Tables) Tail(ctx context.Context, table string, n int) (driver.Tail, error) {
	tail, err := t.tail(ctx, table, n)
	if err != nil {
		return driver.Tail{}, t.objects.explain("read the end of", strconv.Quote(table), err)
	}
	return tail, nil
}

func (t *Tables) tail(ctx context.Context, table string, n int) (tail driver.Tail, err error) {
	d, err := t.existing(ctx, table)
	if err != nil {
		return tail, err
	}
	found, err := t.partsOf(ctx, d, "")
	if err != nil {
		return tail, err
	}
	tail.Columns = d.Columns
	slices.SortFunc(found, func(a, b part) int { return cmp.Or(cmp.Compare(b.file, a.file), cmp.Compare(b.key, a.key)) })
	fetched := int64(parquet.MaxTail) // that may still be read of objects
	err = parts.AppendLast(&tail, found, n, parquet.MaxTail, func(p part, n int, limit int64) (rows [][][]byte, read int64, err error) {
		o := &object{ctx: ctx, store: t.objects, key: p.key, blocks: make(map[int64][]byte), left: &fetched}
		if err = o.open(); err == nil {
			rows, read, err = parquet.LastRows(ctx, o, o.size, d.Columns, n, limit)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", t.objects.prefix+p.key, err)
		}
		return rows, read, err
	}, func(p part) time.Time { return p.at })
	return tail, err
}

// blockBytes is how much of an object one request reads. Most parts are smaller.
const blockBytes = 1 << 20

// object reads an object by blocks, which it keeps.
type object struct {
	ctx    context.Context
	store  *store
	key    string
	size   int64
	blocks map[int64][]byte
	left   *int64 // the bytes that may still be read, of all objects
}

// open reads the first block, whose response has the size.
func (o *object) open() (err error) {
	o.blocks[0], o.size, err = o.store.readRange(o.ctx, o.key, 0, blockBytes, nil)
	*o.left -= int64(len(o.blocks[0]))
	return err
}

// ReadAt implements [io.ReaderAt].
func (o *object) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		at := off + int64(n)
		if at >= o.size {
			return n, io.EOF
		}
		block, err := o.block(at / blockBytes)
		if err != nil {
			return n, err
		}
		n += copy(p[n:], block[at%blockBytes:])
	}
	return n, nil
}

func (o *object) block(i int64) ([]byte, error) {
	if block, ok := o.blocks[i]; ok {
		return block, nil
	}
	if *o.left < blockBytes {
		return nil, driver.ErrTailTooLarge
	}
	block, _, err := o.store.readRange(o.ctx, o.key, i*blockBytes, blockBytes, nil)
	if err != nil {
		return nil, err
	}
	if want := min(o.size-i*blockBytes, blockBytes); int64(len(block)) != want {
		return nil, fmt.Errorf("%d bytes, want %d: %w", len(block), want, io.ErrUnexpectedEOF)
	}
	*o.left -= blockBytes
	o.blocks[i] = block
	return block, nil
}
