package driver

import (
	"context"
	"errors"
	"io"
)

// aheadReader decodes a slice in a separate goroutine. A driver then uses the rows on one core while another decodes the next ones, which takes
// about as long. Reading a plain slice ahead gains nothing.
type aheadReader struct {
	src        io.ReadCloser
	cancel     context.CancelFunc // ends a read of src
	full, free chan []byte        // each has room for all blocks
	err        error              // of src, once full is closed
	block      []byte             // the block that is being read
	rest       []byte             // of block
}

const (
	// aheadBlocks and aheadBytes are how much is decoded ahead.
	aheadBlocks, aheadBytes = 4, 64 << 10
	// aheadFrom is the size of the smallest slice that is decoded ahead. A goroutine gains nothing below it.
	aheadFrom = 2 * aheadBlocks * aheadBytes
)

// openAhead opens a slice. Nothing else of r may use its memory until the result is closed.
func (r *FileRows) openAhead(obj Object) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(r.ctx)
	src, err := r.file.OpenRows(ctx, obj)
	if err != nil {
		cancel()
		return nil, err
	}
	if r.memory == nil {
		r.memory = new([aheadBlocks][aheadBytes]byte)
	}
	a := &aheadReader{src: src, cancel: cancel, full: make(chan []byte, aheadBlocks), free: make(chan []byte, aheadBlocks)}
	for i := range r.memory {
		a.free <- r.memory[i][:]
	}
	go a.decode(ctx)
	return a, nil
}

func (r *aheadReader) decode(ctx context.Context) {
	defer close(r.full)
	for r.err == nil {
		select {
		case block := <-r.free:
			n := 0
			for n < len(block) && r.err == nil {
				var more int
				if r.err = ctx.Err(); r.err == nil {
					more, r.err = r.src.Read(block[n:])
				}
				n += more
			}
			r.full <- block[:n]
		case <-ctx.Done():
			r.err = ctx.Err()
		}
	}
}

func (r *aheadReader) Read(p []byte) (n int, err error) {
	for len(r.rest) == 0 {
		if r.block != nil {
			r.free <- r.block[:aheadBytes]
		}
		var ok bool
		if r.block, ok = <-r.full; !ok {
			return 0, r.err
		}
		r.rest = r.block
	}
	n = copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// Close waits for the goroutine. If it is called before the end, it drops the decoder's error for the read that it ends.
func (r *aheadReader) Close() error {
	r.cancel()
	for range r.full {
	}
	err := r.src.Close()
	if !errors.Is(r.err, io.EOF) {
		return nil
	}
	return err
}
