package sim

import (
	"time"

	"github.com/forebay/forebay/mapping"
)

// In some runs a sink generates cells, which are the time of arrival, and a UUID. A stay in the quarantine changes neither.

// mints reports whether a sink generates cells.
func (r *run) mints(sink string) bool {
	return r.keeps() && r.engine() && letter(sink) == "a" && chance(r.seed, 0.4, "minted")
}

func (r *run) mintedColumns(sink string) mapping.Columns {
	if !r.mints(sink) {
		return nil
	}
	return mapping.Columns{mapping.Datetime("arrived"), mapping.UUID("serial")}
}

// mintedOnce checks the cells that a sink has made of a record, that is, the cells with which the target had refused its row, and the time at which it
// arrived.
func (r *run) mintedOnce(x *row, arrived, serial string) bool {
	at, err := time.Parse(time.RFC3339, arrived)
	if err != nil || len(serial) != 36 {
		r.t.Errorf("a row of %s has the time of arrival %q and the UUID %q: %v", x.sink, arrived, serial, err)
		return false
	}
	if x.minted != [2]string{} && x.minted != [2]string{arrived, serial} {
		r.t.Errorf("a row of %s was refused with %q, and is in the table with %q and %q", x.sink, x.minted, arrived, serial)
	}
	if at.Before(x.at.Truncate(time.Millisecond)) || x.fate != unknown && at.After(x.acked) {
		r.t.Errorf("a record of %s came between %s and %s, its row has %s", x.sink, x.at.UTC(), x.acked.UTC(), arrived)
	}
	return true
}
