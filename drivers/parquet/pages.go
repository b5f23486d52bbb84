package parquet

import "sync"

// pages collects the values of a part's columns, and gives full pages to the encoder.
type pages struct {
	part    *part // used by the encoder alone
	encoder *encoder
	open    []*page // by column
}

func newPages(p *part, e *encoder) *pages {
	w := &pages{part: p, encoder: e}
	for i := range p.columns {
		w.open = append(w.open, e.newPage(p.columns[i].store, nil))
	}
	return w
}

// endPage hands the page of column i over.
func (w *pages) endPage(i int) error {
	full, store := w.open[i], w.part.columns[i].store
	w.open[i] = w.encoder.newPage(store, full)
	return w.encoder.doPage(full.bytes(), func() error {
		err := w.part.addPage(i, full)
		w.encoder.free(store, full)
		return err
	})
}

// endGroup ends the row group.
func (w *pages) endGroup() error {
	for i, p := range w.open {
		if p.rows == 0 {
			continue
		}
		if err := w.endPage(i); err != nil {
			return err
		}
	}
	return w.encoder.do(w.part.endGroup)
}

// finish ends the part.
func (w *pages) finish() error {
	if err := w.endGroup(); err != nil {
		return err
	}
	for i, p := range w.open {
		w.encoder.free(w.part.columns[i].store, p)
	}
	w.open = nil
	return w.encoder.do(w.part.close)
}

// encoder does the work of one import in the background, in order. Pages are encoded while rows are read. The design that lost has two
// goroutines for different columns. On two cores it takes as long, and more CPU.
type encoder struct {
	jobs  chan job
	units chan struct{} // one for each unit of the jobs that are not done
	spare *sparePages
	done  chan struct{}
	err   error // the first one, valid after done
}

type job struct {
	do    func() error
	units int
}

const (
	// inFlight bounds the bytes of the pages that wait for the encoder. The design that lost bounds their number. The pages of all columns end
	// at nearly the same row, so with eight pages the reader waited for the encoder, and then the encoder for the reader.
	inFlight = 4 << 20
	// unitBytes are counted together.
	unitBytes, maxUnits = 64 << 10, inFlight / unitBytes
)

func startEncoder(spare *sparePages) *encoder {
	e := &encoder{jobs: make(chan job, maxUnits), units: make(chan struct{}, maxUnits), spare: spare, done: make(chan struct{})}
	go func() {
		defer close(e.done)
		for j := range e.jobs {
			if e.err = j.do(); e.err != nil {
				return
			}
			for range j.units {
				<-e.units
			}
		}
	}()
	return e
}

// do queues a job. It returns an error if an earlier job has failed. Only one goroutine may call it.
func (e *encoder) do(f func() error) error { return e.doPage(0, f) }

// doPage queues a job that uses a page of so many bytes.
func (e *encoder) doPage(bytes int, f func() error) error {
	j := job{f, min(1+bytes/unitBytes, maxUnits)}
	for range j.units {
		select {
		case e.units <- struct{}{}:
		case <-e.done:
			return e.err
		}
	}
	e.jobs <- j // has room, because each job has a unit
	return nil
}

// wait waits for all jobs. No call of do may follow.
func (e *encoder) wait() error {
	close(e.jobs)
	<-e.done
	return e.err
}

// sparePages has pages by the store of their column, which determines the kind of their memory.
type sparePages [fixed + 1]sync.Pool

// newPage returns an empty page. If no page is spare, the new page has the capacity of before, the last page of the column (nil if there is none).
func (e *encoder) newPage(s store, before *page) *page {
	if p, ok := e.spare[s].Get().(*page); ok {
		return p
	}
	if before == nil {
		return new(page)
	}
	return &page{
		levels: make([]byte, 0, len(before.levels)), data: make([]byte, 0, min(len(before.data)+len(before.data)/16, pageBytes+pageBytes/16)),
		longs: make([]int64, 0, len(before.longs)), ints: make([]int32, 0, len(before.ints)),
	}
}

// free keeps a page for its memory, unless a very long value has made it large.
func (e *encoder) free(s store, p *page) {
	if p.reset(); cap(p.data) <= 2*pageBytes {
		e.spare[s].Put(p)
	}
}
