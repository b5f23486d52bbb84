package sqlite

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/forebay/forebay/driver"
)

// withStallTimeout returns the file with other slices. Opening one and each read of one fail when ctx ends, or after limit, even if staging
// heeds neither. Staging must not hold the only writer of the database, for which the imports of all other tables wait.
func withStallTimeout(f *driver.File, limit time.Duration) *driver.File {
	guarded := *f
	guarded.OpenSlice = func(ctx context.Context, obj driver.Object) (io.ReadCloser, error) {
		src, err := await(ctx, limit, func() (io.ReadCloser, error) { return f.OpenSlice(ctx, obj) }, func(src io.ReadCloser, err error) {
			if err == nil {
				_ = src.Close()
			}
		})
		if err != nil {
			return nil, err
		}
		return &guardedSlice{ctx: ctx, limit: limit, src: src}, nil
	}
	return &guarded
}

// guardedSlice is an open slice of withStallTimeout.
type guardedSlice struct {
	ctx   context.Context
	limit time.Duration
	src   io.ReadCloser
	buf   []byte // never the caller's, because an abandoned read may still write into it
	err   error  // the error of an abandoned read, which closes src when it returns
}

func (s *guardedSlice) Read(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	if len(s.buf) < len(p) {
		s.buf = make([]byte, len(p))
	}
	type read struct {
		n   int
		err error
	}
	got, err := await(s.ctx, s.limit, func() (read, error) {
		n, err := s.src.Read(s.buf[:len(p)])
		return read{n, err}, nil
	}, func(read, error) { _ = s.src.Close() })
	if err != nil {
		s.err = err
		return 0, err
	}
	return copy(p, s.buf[:got.n]), got.err
}

func (s *guardedSlice) Close() error {
	if s.err != nil {
		return nil
	}
	return s.src.Close()
}

// grace is how long a call that heeds its context may take to end with it.
const grace = time.Second

// await returns the result of call. If ctx ends first, or limit is over, it returns an error, and late gets the result as soon as it is there.
func await[T any](ctx context.Context, limit time.Duration, call func() (T, error), late func(T, error)) (result T, err error) {
	type outcome struct {
		result T
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		result, err := call()
		done <- outcome{result, err}
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case o := <-done:
		return o.result, o.err
	case <-ctx.Done():
		err = ctx.Err()
		timer.Reset(grace)
		select {
		case o := <-done:
			late(o.result, o.err)
			return result, err
		case <-timer.C:
		}
	case <-timer.C:
		err = fmt.Errorf("staging has not responded for %s: the import begins again later, so that others can write", limit)
	}
	go func() {
		o := <-done
		late(o.result, o.err)
	}()
	return result, err
}
