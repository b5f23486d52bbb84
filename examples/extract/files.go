package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/forebay/forebay/extractor"
)

// stateFile is the path of a state, "" for none. The file can hold links of the API and is not for others to read.
type stateFile string

// load returns the state, the zero one when there is no file.
func (f stateFile) load() (state extractor.State, err error) {
	if f == "" {
		return state, nil
	}
	text, err := os.ReadFile(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return state, f.probe()
	}
	if err == nil {
		err = f.probe()
	}
	if err == nil {
		err = json.Unmarshal(text, &state)
	}
	if err != nil {
		return state, usageError{fmt.Errorf("state: %w", err)}
	}
	return state, nil
}

// probe reports a folder in which no state can be saved before anything is pulled, not after it.
func (f stateFile) probe() error {
	tmp, err := os.OpenFile(f.temporary(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return usageError{fmt.Errorf("state: %w", err)}
	}
	return errors.Join(tmp.Close(), os.Remove(tmp.Name()))
}

// temporary is always the same name, so that a process that is killed leaves at most one file, which the next replaces.
func (f stateFile) temporary() string { return string(f) + ".tmp" }

// save replaces the file as a whole: a crash leaves the old state or the new one.
func (f stateFile) save(state extractor.State) error {
	if f == "" {
		return nil
	}
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	tmp, err := os.OpenFile(f.temporary(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(text)
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), string(f))
}

// A progressLine shows how far a run is: on a terminal one line that changes, else a line now and then.
type progressLine struct {
	out      io.Writer
	terminal bool
	last     time.Time
	shown    extractor.Progress
}

func newProgressLine(out io.Writer) *progressLine {
	l := &progressLine{out: out, last: time.Now()}
	if f, ok := out.(*os.File); ok {
		info, err := f.Stat()
		l.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return l
}

func (l *progressLine) show(p extractor.Progress) {
	l.shown = p
	pause := 5 * time.Second
	if l.terminal {
		pause = 100 * time.Millisecond
	}
	if time.Since(l.last) >= pause {
		l.print("")
	}
}

func (l *progressLine) print(end string) {
	l.last = time.Now()
	begin := ""
	if l.terminal {
		begin = "\r\x1b[K"
	} else {
		end = "\n"
	}
	p := l.shown
	fmt.Fprintf(l.out, "%s%d pages, %d records, %.1f kB at %.1f kB/s, %d requests, %d retries%s",
		begin, p.Pages, p.Records, float64(p.Bytes)/1000, p.BytesPerSecond()/1000, p.Requests, p.Retries, end)
}

// end shows the last figures.
func (l *progressLine) end() { l.print("\n") }
