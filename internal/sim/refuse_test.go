package sim

import (
	"context"
	"fmt"
	"strings"

	"github.com/forebay/forebay/driver"
)

// A target may refuse rows, as one with constraints does. Which ones depends on the name of the row, on the rule, which the operator
// changes, and on the second cell. A repaired row is never refused.

// naming is how the target reports refused rows.
type naming uint8

const (
	namesAll   naming = iota // all of them
	namesFirst               // the first one, as PostgreSQL does
	namesNone                // that there are some
)

// repaired is the second cell of what an operator has edited.
const repaired = "repaired"

// refusalRates are the shares of rows that the target of a run refuses, by its rule. A row that a rule refuses is also refused by the stricter
// ones.
var refusalRates = []float64{0, 0.02, 0.08, 0.25}

// refusable tells whether some rule of the run refuses the row of that name.
func (o *outside) refusable(name string) bool { return o.refusedBy(name, o.strictest) }

func (o *outside) refusedBy(name string, rule int) bool {
	return share(o.seed, "refused "+name) < refusalRates[rule]
}

// refusals returns the target's error for rows that it refuses now, or nil if it accepts all rows. Called with mu held.
func (o *outside) refusals(rows [][]string) error {
	var refused driver.RowsError
	for i, cells := range rows {
		if !o.refusedBy(cells[0], o.rule) || cells[1] == repaired {
			continue
		}
		more := refused.Add(driver.RowError{Row: int64(i), Column: "value", Reason: "23514", Message: "the row breaks rule " + fmt.Sprint(o.rule)})
		if o.naming != namesAll || !more {
			break
		}
	}
	if len(refused.Rows) == 0 {
		return nil
	}
	o.sum.add("drivers: imports with refused rows", 1)
	o.spring()
	refused.Complete = o.naming == namesAll && len(refused.Rows) < driver.MaxRowErrors
	if o.naming == namesNone {
		refused.Rows[0].Row = -1
	}
	return &refused
}

// voider is a target that can rule out an import.
type voider struct{ *drivers }

func (d voider) Void(ctx context.Context, t driver.Table, id string) (done bool, err error) {
	err = d.call(ctx, "target", "void "+id, func() error {
		return d.do(func() error {
			if done = d.o.files[id] != nil; !done {
				d.o.voided[id] = true
				d.o.spring()
			}
			return nil
		})
	})
	if err != nil {
		d.o.failedFirst(fileOf(id))
	}
	return done, err
}

// fileOf is the id of the file that an id for the target belongs to, its own, or of a file that it is a part of.
func fileOf(id string) string {
	if at := strings.LastIndex(id, "-p"); at > strings.Index(id, "-") {
		return id[:at]
	}
	return id
}

// spring springs the trap, if one is set. Called with mu held.
func (o *outside) spring() {
	if o.trap != nil {
		o.sum.add("process: cut of power soon after a refusal", 1)
		o.trap()
		o.trap = nil
	}
}

// cutSoon returns what takes the power off a few operations of the disk after it is called.
func (r *run) cutSoon() func() { return r.cutWithin(9) }

// cutWithin returns what takes the power off less than that many operations of the disk after it is called.
func (r *run) cutWithin(most int) func() {
	d, g, n, percent, seed := r.disk, r.gen, r.more.IntN(most), pick(r.more, 0, 10, 50, 100), r.more.Uint64()
	return func() { d.cutAfter(n, func() { r.cut(g, percent, seed) }) }
}

// disarm ends the faults of the disk, and the trap.
func (r *run) disarm() {
	r.out.mu.Lock()
	r.out.trap, r.out.reads = nil, nil
	r.out.mu.Unlock()
	r.disk.heal()
}
