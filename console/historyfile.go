package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"time"
)

// savedHistory is Options.HistoryFile. A file of another version is not read.
type savedHistory struct {
	Version int                     `json:"version"`
	Points  map[string][]savedPoint `json:"points"` // by range
	Marks   []savedMark             `json:"marks"`
}

const historyVersion = 1

type savedMark struct {
	At   int64  `json:"at"`
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// savedPoint is the JSON of a point.
type savedPoint []*float64

// maxHistoryFile bounds the read. A file that this package wrote is 250 KB at most.
const maxHistoryFile = 5 << 20

// loadHistory reads a file that saveHistory wrote, except entries that are too old, and marks the start. An unreadable file is ignored.
func (s *sampler) loadHistory(now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.history.mark(now, "start", "The console was started.")
	path := s.c.opts.HistoryFile
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && info.Size() > maxHistoryFile {
		err = fmt.Errorf("it has %d bytes, more than %d", info.Size(), maxHistoryFile)
	}
	var b []byte
	if err == nil {
		b, err = os.ReadFile(path)
	}
	var saved savedHistory
	if err == nil {
		err = json.Unmarshal(b, &saved)
	}
	if err == nil && saved.Version != historyVersion {
		err = fmt.Errorf("it has version %d, this release reads %d", saved.Version, historyVersion)
	}
	if err != nil {
		return err
	}
	for i, r := range ranges {
		for _, values := range saved.Points[r.name] {
			var p point
			figures := p.figures()
			if len(values) != len(figures)+1 || values[0] == nil {
				s.history = history{}
				return fmt.Errorf("a point has %d figures, want %d", len(values), len(figures)+1)
			}
			p.at = time.UnixMilli(int64(*values[0]))
			if age := now.Sub(p.at); age < 0 || age > r.span {
				continue
			}
			for j, v := range figures {
				if *v = math.NaN(); values[j+1] != nil {
					*v = *values[j+1]
				}
			}
			s.history.series[i].points = append(s.history.series[i].points, p)
		}
	}
	for _, m := range saved.Marks {
		if at := time.UnixMilli(m.At); now.Sub(at) <= ranges[len(ranges)-1].span && len(s.history.marks) < maxMarks-1 {
			s.history.marks = append(s.history.marks, mark{moment(at), visible(m.Kind), visible(m.Text)})
		}
	}
	return nil
}

// saveHistory writes the file, if there is one. A failure is logged once, until it works again.
func (s *sampler) saveHistory() {
	path := s.c.opts.HistoryFile
	if path == "" {
		return
	}
	s.mu.Lock()
	points := make(map[string][]point)
	for i, r := range ranges {
		points[r.name] = append([]point{}, s.history.series[i].points...)
	}
	b, err := json.Marshal(map[string]any{"version": historyVersion, "points": points, "marks": s.history.marks})
	s.mu.Unlock()
	if err == nil {
		err = os.WriteFile(path+".new", b, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil && !s.unsaved {
		s.c.opts.Logger.Warn("history of the console not written", "file", path, "cause", err, "next", "check the disk and the folder")
	}
	s.unsaved = err != nil
}
