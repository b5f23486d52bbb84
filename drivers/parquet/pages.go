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
	for range p.columns {
		w.open = append(w.open, e.newPage())
	}
	return w
}

// endPage hands the page of column i over.
func (w *pages) endPage(i int) error {
	full := w.open[i]
	w.open[i] = w.encoder.newPage()
	return w.encoder.do(func() error {
		err := w.part.addPage(i, full)
		w.encoder.free(full)
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
	for _, p := range w.open {
		w.encoder.free(p)
	}
	w.open = nil
	return w.encoder.do(w.part.close)
}

// encoder does the work of one import in the background, in order: pages are encoded beside the reading of rows.
type encoder struct {
	jobs  chan func() error
	spare *sync.Pool // of *page
	done  chan struct{}
	err   error // the first one; after done
}

// inFlight bounds the pages that wait for the encoder.
const inFlight = 8

func startEncoder(spare *sync.Pool) *encoder {
	e := &encoder{jobs: make(chan func() error, inFlight), spare: spare, done: make(chan struct{})}
	go func() {
		defer close(e.done)
		for job := range e.jobs {
			if e.err = job(); e.err != nil {
				return
			}
		}
	}()
	return e
}

// do queues a job. It returns an error if an earlier job has failed.
func (e *encoder) do(job func() error) error {
	select {
	case e.jobs <- job:
		return nil
	case <-e.done:
		return e.err
	}
}

// wait waits for all jobs. No call of do may follow.
func (e *encoder) wait() error {
	close(e.jobs)
	<-e.done
	return e.err
}

func (e *encoder) newPage() *page {
	if p, ok := e.spare.Get().(*page); ok {
		return p
	}
	return new(page)
}

// free keeps a page for its memory, unless a very long value has made it large.
func (e *encoder) free(p *page) {
	if p.reset(); cap(p.data) <= 2*pageBytes {
		e.spare.Put(p)
	}
}
