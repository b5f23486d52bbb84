package buffer

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"

	"github.com/forebay/forebay/trigger"
)

// Rows that gather in a writing file take room that only their import frees. When they take half of the room that a bound leaves
// in addition to the bytes already on their way, the file is closed, uploaded and imported at once, whatever its conditions say.
//
// The mark depends on the room that is left, and not on the bound alone, so that a sink whose earlier files are stuck can still
// use the rest. It is at least a 64th of the bound, because during an outage of the target another file frees nothing, and half a dozen
// files are left afterwards instead of one for each commit.

// pressureLeast is the smallest part of a bound for which a file is closed.
const pressureLeast = 64

// pressureMark returns the number of gathering bytes from which files are closed. moving bytes are on their way to the table, and
// a call waits for need bytes.
func pressureMark(bound, moving, need int64) int64 {
	room := bound - moving
	return max(min(room/2, room-need), bound/pressureLeast, 1)
}

// relieve closes files of the sinks of the chunks, and of the fullest sinks, as far as the bounds demand it.
func (t *txn) relieve(chunks []*chunk) {
	for _, ch := range chunks {
		t.relieveSink(ch.sink)
	}
	t.relieveAll(0)
}

func (t *txn) relieveSink(s *sinkState) {
	if s.file != nil && t.b.pressed(s) {
		t.closeFile(s.file, trigger.Pressure)
	}
}

// pressed reports whether the writing file of a sink takes too much of the sink's room. Called with mu held.
func (b *Buffer) pressed(s *sinkState) bool {
	f := s.file
	return f != nil && f.gathered >= pressureMark(b.opts.MaxSinkBytes, s.room.waiting.Load()-f.gathered, 0)
}

// relieveAll closes the files of the fullest sinks when all sinks together leave too little room, or less than need.
func (t *txn) relieveAll(need int64) {
	b := t.b
	mark, gathering := b.admission.mark(need)
	if gathering < mark {
		return
	}
	var full []*file
	for _, s := range b.mu.sinks {
		if s.file != nil && s.file.gathered > 0 {
			full = append(full, s.file)
		}
	}
	slices.SortFunc(full, func(x, y *file) int {
		return cmp.Or(cmp.Compare(y.gathered, x.gathered), cmp.Compare(x.num, y.num))
	})
	for _, f := range full {
		if b.admission.gathering.Load() <= mark/2 {
			break
		}
		t.closeFile(f, trigger.Pressure)
	}
}

// resumePressure closes files that are too full at an opening, because the bound was lowered, or the last process ended before.
func (b *Buffer) resumePressure() {
	due := false
	for _, s := range b.mu.sinks {
		due = due || b.pressed(s)
	}
	if mark, gathering := b.admission.mark(0); !due && gathering < mark {
		return
	}
	_, _ = b.gate.post(&operation{run: func(t *txn) {
		for _, s := range b.mu.sinks {
			t.relieveSink(s)
		}
		t.relieveAll(0)
	}})
}

// Unreachable says which size conditions of a sink can never be met with this tuning, because pressure moves the rows
// first, from half of MaxSinkBytes or MaxDiskBytes on, whichever is less. A condition that can be met is the empty text.
// Such a sink works, but makes smaller files than its conditions ask for. [Buffer.Define] logs the same texts. Zero fields
// count as their defaults.
func (t Tuning) Unreachable(c SinkConfig) (upload, imports string) {
	t = t.WithDefaults()
	bound, option, who := t.MaxSinkBytes, "MaxSinkBytes", "a sink"
	if t.MaxDiskBytes < bound {
		bound, option, who = t.MaxDiskBytes, "MaxDiskBytes", "all sinks together"
	}
	mark := pressureMark(bound, 0, 0)
	text := func(step string, size int64) string {
		if size <= mark {
			return ""
		}
		return fmt.Sprintf("the %s size of %s is never reached: %s may hold %s (%s), and from %s on rows are imported at once",
			step, trigger.FormatSize(size), who, trigger.FormatSize(bound), option, trigger.FormatSize(mark))
	}
	return text("upload", trigger.Upload().WithDefaults(c.Upload).Size), text("import", trigger.Import().WithDefaults(c.Import).Size)
}

// warnUnreachable logs the text of [Tuning.Unreachable] for a new definition, as a warning where the user has chosen
// the condition.
func (b *Buffer) warnUnreachable(c SinkConfig) {
	level := slog.LevelInfo
	if size := c.Upload.Size; size != 0 && size != trigger.Upload().Default.Size {
		level = slog.LevelWarn
	}
	if size := c.Import.Size; size != 0 && size != trigger.Import().Default.Size {
		level = slog.LevelWarn
	}
	upload, imports := b.opts.Unreachable(c)
	for _, text := range []string{upload, imports} {
		if text != "" {
			b.log.Log(b.ctx, level, "condition never met", "sink", c.ID, "condition", text, "next", "lower the condition, or raise the limit that it names")
		}
	}
}
