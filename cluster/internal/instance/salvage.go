package instance

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/cluster/changelog"
	"github.com/forebay/forebay/internal/localdisk"
	"github.com/forebay/forebay/internal/pebblestore"
)

// Notes in a folder that is set aside.
const (
	endFile     = "log-end"  // where the log ended that continues without the folder
	salvageFile = "salvaged" // a Salvage
)

// The errors of [Instance.Salvage] that no repetition changes.
var (
	// ErrNoFolder means that there is no folder of this name that was set aside.
	ErrNoFolder = errors.New("there is no such folder")
	// ErrCannotSalvage means that it cannot be told which rows of the folder the log had, or which are stored already. Nothing was stored by this call.
	ErrCannotSalvage = errors.New("the rows of the folder cannot be salvaged")
)

// Salvage describes the rows of a folder set aside that were acknowledged on its disk alone.
type Salvage struct {
	// Folder is the folder, and Instance the instance that it belonged to.
	Folder   string `json:"folder"`
	Instance string `json:"instance"`
	// LogEnd is the last batch that the log has. Last is the last one of the folder.
	LogEnd uint64 `json:"logEnd"`
	Last   uint64 `json:"last"`
	// Into is the instance whose engine has taken rows, empty before. Done says that it has all that are not left out.
	Into string `json:"into,omitempty"`
	Done bool   `json:"done"`
	// Sinks have the rows of the batches after LogEnd.
	Sinks []SalvagedSink `json:"sinks"`
}

// SalvagedSink are rows of a sink that the log does not have.
type SalvagedSink struct {
	// Source and Sink name the sink.
	Source string `json:"source"`
	Sink   string `json:"sink"`
	// Rows is their number. LeftOut says why they are not stored. Empty means that they are, or will be.
	Rows    int64  `json:"rows"`
	LeftOut string `json:"leftOut,omitempty"`

	pieces []buffer.TailRows
}

// Salvage finds the rows of a folder fenced-INSTANCE-EPOCH of this node that were acknowledged on its disk alone, and with store gives them to the
// engine as new rows. Rows that the log had are left out. The owner's record, or a note in the folder, says where the log ended, and the chain of
// the folder's batches must continue from there. Rows of sinks that wait for the log are left out too, because they were never acknowledged.
//
// A repeated call, even after a crash, stores each row once, as long as the node keeps its instance. If it lost that in the middle, the
// error is ErrCannotSalvage.
func (i *Instance) Salvage(ctx context.Context, name string, store bool) (s Salvage, err error) {
	i.salvaging.Lock()
	defer i.salvaging.Unlock()
	dir, instance, err := i.folder.fenced(name)
	if err != nil {
		return s, err
	}
	disk := i.folder.disk
	text, err := pebblestore.ReadNote(disk, disk.PathJoin(dir, salvageFile), 1<<20)
	switch {
	case err == nil:
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			return s, fmt.Errorf("%w: the note of an earlier call: %w", ErrCannotSalvage, err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return s, err
	}
	if s.Done {
		return s, nil
	}
	me := i.keeper.Instance()
	if s.Into != "" && s.Into != me {
		return s, fmt.Errorf("%w: a call that did not end has given some to instance %s, which this node has lost", ErrCannotSalvage, s.Into)
	}
	into := s.Into
	if s, err = i.look(ctx, dir, Salvage{Folder: name, Instance: instance, Into: into}); err != nil || !store {
		return s, err
	}
	note := func() error {
		text, err := json.Marshal(s)
		if err != nil {
			return err
		}
		return pebblestore.WriteNote(disk, dir, salvageFile, string(text))
	}
	s.Into = me
	if err := note(); err != nil {
		return s, err
	}
	key := fmt.Sprintf("%x", sha256.Sum256([]byte(name)))[:32]
	var stored []SalvagedSink
	rows := int64(0)
	for n := range s.Sinks {
		to := &s.Sinks[n]
		if to.LeftOut != "" {
			continue
		}
		if _, err := i.engine.Sink(to.Source, to.Sink).AppendTail(ctx, key, to.pieces); err != nil {
			return s, fmt.Errorf("store rows of sink %s of source %s: %w", to.Sink, to.Source, err)
		}
		stored, rows = append(stored, *to), rows+to.Rows
		to.pieces = nil
	}
	s.Done = true
	if err := note(); err != nil {
		return s, err
	}
	for _, to := range stored { // the note says enough
		if err := i.engine.Sink(to.Source, to.Sink).EndTail(ctx, key); err != nil {
			i.opts.Logger.Debug("note of a salvage left", "folder", name, "cause", err)
		}
	}
	i.opts.Logger.Info("rows of a folder salvaged", "folder", name, "rows", rows)
	return s, nil
}

// look reads the folder.
func (i *Instance) look(ctx context.Context, dir string, s Salvage) (Salvage, error) {
	end, err := i.logEnd(ctx, dir, s.Instance)
	if err != nil {
		return s, err
	}
	in, err := forebay.Inspect(dir, localdisk.On(buffer.InspectOptions{}, i.folder.disk))
	if err != nil {
		return s, err
	}
	s.LogEnd, s.Last = end.Number, in.LogPosition().Number
	bySink := map[string]*SalvagedSink{}
	var order []string
	read := func() error {
		next := end.Number + 1
		for b, err := range in.Tail() {
			switch {
			case err != nil:
				return err
			case b.Number < next:
				continue // the log has it
			case b.Number > next:
				return fmt.Errorf("%w: the log ends with batch %d, and the folder has no copy of batch %d", ErrCannotSalvage, end.Number, next)
			}
			m, err := parseMark(buffer.LogPosition{Number: b.Number, Mark: b.Mark})
			if err != nil {
				return err
			}
			if next == end.Number+1 && m.Before != end.Chain {
				return fmt.Errorf("%w: its batch %d does not follow batch %d of the log", ErrCannotSalvage, next, end.Number)
			}
			next++
			for _, rows := range b.Rows {
				to := bySink[rows.SinkID]
				if to == nil {
					to = &SalvagedSink{}
					to.Source, to.Sink, _ = strings.Cut(rows.SinkID, "/")
					bySink[rows.SinkID] = to
					order = append(order, rows.SinkID)
				}
				to.Rows += int64(rows.Count)
				to.pieces = append(to.pieces, rows)
			}
		}
		return nil
	}
	if err := errors.Join(read(), in.Close()); err != nil {
		return s, err
	}
	for _, id := range order {
		to := bySink[id]
		to.LeftOut = i.leftOut(to)
		s.Sinks = append(s.Sinks, *to)
	}
	return s, nil
}

// leftOut says why the rows of a sink are not stored, empty if they are.
func (i *Instance) leftOut(s *SalvagedSink) string {
	source, ok := i.engine.Source(s.Source)
	if !ok {
		return "the source is not defined"
	}
	for _, sink := range source.Sinks {
		switch {
		case sink.ID != s.Sink:
		case !sink.AckLocal:
			return "the sink waits for the log, so no caller was told that these rows are stored"
		case source.Disabled || sink.Disabled:
			return "the sink is disabled"
		case !i.engine.Sink(s.Source, s.Sink).HasColumns(s.pieces):
			return "the columns of the sink are others now"
		default:
			return ""
		}
	}
	return "the sink is not defined"
}

// logEnd returns where the log ended that continues without a folder.
func (i *Instance) logEnd(ctx context.Context, dir, instance string) (end changelog.LogEnd, err error) {
	disk := i.folder.disk
	text, err := pebblestore.ReadNote(disk, disk.PathJoin(dir, endFile), 1024)
	switch {
	case err == nil:
		if err = json.Unmarshal([]byte(text), &end); err != nil {
			err = fmt.Errorf("%w: the note of the end of its log: %w", ErrCannotSalvage, err)
		}
		return end, err
	case !errors.Is(err, fs.ErrNotExist):
		return end, err
	}
	owner, err := readOwner(ctx, i.opts.Owners, instance)
	switch {
	case errors.Is(err, ErrUnknown):
		return end, fmt.Errorf("%w: nothing says what the log had of it, for the record of instance %s is gone", ErrCannotSalvage, instance)
	case err != nil:
		return end, err
	case owner.Adopted != nil:
		return *owner.Adopted, nil
	case owner.State == changelog.Adopting:
		return end, fmt.Errorf("another node is about to read the log of instance %s: try again", instance)
	}
	return end, fmt.Errorf("%w: the record of instance %s does not say what its log had", ErrCannotSalvage, instance)
}

// readOwner reads the record of an instance, which may be an old one. The error is [ErrUnknown] if there is none.
func readOwner(ctx context.Context, owners changelog.Owners, instance string) (o changelog.Owner, err error) {
	v, err := owners.Get(ctx, changelog.OwnerKey(instance))
	if err != nil {
		return o, err
	}
	if v.Version == 0 {
		return o, fmt.Errorf("%w: %q", ErrUnknown, instance)
	}
	return o, o.UnmarshalJSON(v.Value)
}

// fenced returns the path and the instance of a folder that was set aside.
func (f *folder) fenced(name string) (dir, instance string, err error) {
	rest, ok := strings.CutPrefix(name, fencedPrefix)
	at := strings.LastIndexByte(rest, '-')
	if !ok || at < 1 || strings.ContainsAny(name, `/\`) {
		return "", "", fmt.Errorf("%w: %q is not fenced-INSTANCE-EPOCH", ErrNoFolder, name)
	}
	dir = f.disk.PathJoin(f.dir, name)
	if _, err := f.disk.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return "", "", fmt.Errorf("%w at this node: %s", ErrNoFolder, name)
	} else if err != nil {
		return "", "", err
	}
	return dir, rest[:at], nil
}

// noteEnd notes in the folder of an engine, which is about to be set aside, where the log ends, if that is known.
func (f *folder) noteEnd(instance string, end *changelog.LogEnd, log *slog.Logger) {
	if end == nil {
		return
	}
	text, err := json.Marshal(end)
	if err == nil {
		if _, gone := f.disk.Stat(f.data(instance)); errors.Is(gone, fs.ErrNotExist) {
			return
		}
		err = pebblestore.WriteNote(f.disk, f.data(instance), endFile, string(text))
	}
	if err != nil {
		log.Warn("end of the log not noted", "instance", instance, "cause", err, "next", "keep the folder; a salvage reads the end again")
	}
}
