package extract

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/forebay/forebay/extractor"
	"github.com/forebay/forebay/internal/program/keep"
	"github.com/forebay/forebay/mapping"
)

// readProposals reads what discover wrote, which is columns by data type. The file may have been edited.
func readProposals(path string) (map[string]mapping.Columns, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, keep.Unreadable("columns", err)
	}
	defer f.Close()
	columns := make(map[string]mapping.Columns)
	for d := json.NewDecoder(f); ; {
		var p proposal
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) && len(columns) > 0 {
			return columns, nil
		}
		if err != nil || p.DataType == "" || len(p.Columns) == 0 {
			return nil, fmt.Errorf("-columns: %s is not the output of forebay extract discover: object %d has no dataType or no columns; run discover again to write the file", path, len(columns)+1)
		}
		columns[p.DataType] = p.Columns
	}
}

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
		if json.Unmarshal(text, &state) != nil {
			err = fmt.Errorf("%s is not the state of a run: name the file that an earlier run wrote, or a new one", string(f))
		}
	}
	if err != nil {
		return state, usageError{fmt.Errorf("-state: %w", err)}
	}
	return state, nil
}

// probe reports a folder in which no state can be saved before anything is pulled, not after it.
func (f stateFile) probe() error {
	tmp, err := os.OpenFile(string(f)+".tmp", os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return usageError{fmt.Errorf("-state: %w", err)}
	}
	return errors.Join(tmp.Close(), os.Remove(tmp.Name()))
}

// save replaces the file as a whole. A crash leaves the old state or the new one.
func (f stateFile) save(state extractor.State) error {
	if f == "" {
		return nil
	}
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	return keep.Write(string(f), text)
}
