package otlptest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/cputime"
	"github.com/forebay/forebay/internal/proctest"
)

// load is the work of the senders of one process.
type load struct {
	Protocol, Address  string
	Connections, Calls int // calls in flight on each connection
	Records, Size      int
}

// loadVariable makes the test program a process of senders.
const loadVariable = "OTLPTEST_LOAD"

func TestMain(m *testing.M) {
	text := os.Getenv(loadVariable)
	if text == "" {
		os.Exit(m.Run())
	}
	var l load
	err := json.Unmarshal([]byte(text), &l)
	if err == nil {
		err = l.serve(os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve reads how many requests are to be sent, and replies with the CPU time that this took, in nanoseconds, until the input
// ends.
func (l load) serve(in io.Reader, out io.Writer) error {
	data, err := encoded(l.Records, l.Size)
	if err != nil {
		return err
	}
	var senders []sender
	for range l.Connections {
		s, err := newSender(l.Protocol, l.Address, data, l.Calls)
		if err != nil {
			return err
		}
		defer s.Close()
		senders = append(senders, s)
	}
	for {
		var requests int64
		if _, err := fmt.Fscanln(in, &requests); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		before := cputime.Process()
		var left atomic.Int64
		left.Store(requests)
		failed := make(chan error, len(senders))
		var wg sync.WaitGroup
		for _, s := range senders {
			wg.Go(func() { failed <- s.run(func() bool { return left.Add(-1) >= 0 }) })
		}
		wg.Wait()
		close(failed)
		for e := range failed {
			err = errors.Join(err, e)
		}
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, (cputime.Process() - before).Nanoseconds()); err != nil {
			return err
		}
	}
}

// loader is a process of senders that runs.
type loader struct{ *proctest.Process }

func startLoad(b *testing.B, l load) *loader {
	b.Helper()
	p := proctest.Run(b, proctest.Self(loadVariable+"="+proctest.JSON(l)))
	b.Cleanup(func() {
		if out, err := p.Wait(); err != nil {
			b.Errorf("the senders: %v: %s", err, out)
		}
	})
	return &loader{p}
}

// run has requests sent, and returns the CPU time of the senders.
func (l *loader) run(b *testing.B, requests int) time.Duration {
	b.Helper()
	l.Say(fmt.Sprint(requests))
	spent, err := strconv.ParseInt(l.Line(), 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return time.Duration(spent)
}
