package buffertest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/forebay/forebay/driver"
)

// lonely is a target that only one process may use. open says which process has it open.
type lonely struct {
	*Memory
	process string
	name    func(process string) string
	open    *string // nil means that it is closed after each call
}

func (l *lonely) Alone(string) string { return l.name(l.process) }

func (l *lonely) Import(ctx context.Context, f *driver.File) error {
	if l.open != nil {
		if *l.open != "" && *l.open != l.process {
			return errors.New("another process has it open")
		}
		*l.open = l.process
	}
	return l.Memory.Import(ctx, f)
}

func TestAloneIsChecked(t *testing.T) {
	shared := func(string) string { return "path" }
	for what, c := range map[string]struct {
		name  func(string) string
		keeps bool
		sound bool
	}{
		"closed between calls, one name":       {shared, false, true},
		"a name of its own for each process":   {func(process string) string { return "path of " + process }, false, false},
		"another process finds it still open":  {shared, true, false},
		"another name for each call":           {func() func(string) string { n := 0; return func(string) string { n++; return fmt.Sprint(n) } }(), false, false},
		"nothing that has to be done in turns": {func(string) string { return "" }, false, true},
	} {
		failed := failedTarget(t, "Alone", func() *bench {
			mem := NewMemory()
			var open *string
			if c.keeps {
				open = new(string)
			}
			return &bench{
				Target: &lonely{mem, "a", c.name, open}, typed: true, read: mem.Rows,
				reopen: func() driver.Target { return &lonely{mem, "b", c.name, open} },
			}
		})
		if c.sound != (failed == nil) {
			t.Errorf("%s: got failed checks %v, want none: %t", what, failed, c.sound)
		}
	}
}
