package catalog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"
)

// coordinator keeps the changes of a catalog apart from the changes of other catalogs that have the same definitions, and makes each follow the
// others. A catalog with a store for itself is [alone]. The catalogs of a cluster are [shared]: read their files only to learn about clusters.
type coordinator interface {
	// open reads which tasks there are, and joins the other catalogs until ctx ends. The engine has no definition yet. erasures are in the store.
	open(ctx context.Context, erasures []*erasure) error
	// start continues what an earlier opening has left, when the engine has the definitions.
	start(erasures []*erasure, creations []*creation)
	// catchUp returns when this catalog shows all changes made before the call, or with a [*JournalError] after timeout.
	catchUp(ctx context.Context, timeout time.Duration) error

	// begin makes the first write of a change. planned makes the change, and may be called several times. records has the task, or is empty for
	// a change without one. The hold keeps other catalogs from the entity, the source and the tables of the change. If another catalog's change
	// has one of these, the error is [Busy]. With a task begin first waits while the other change may end soon, and until ctx ends. Without one it
	// does not wait, because its caller has the lock of the source. The caller may call again after await. A catalog that is alone has no holds:
	// hold is empty, and the other methods ignore it.
	begin(ctx context.Context, ref Ref, entity, task string, planned func() (*change, error), records map[string][]byte) (hold string, err error)
	// await waits a moment for the change of another catalog. It reports false when ctx has ended.
	await(ctx context.Context) bool
	// commit writes records of a change. The error is [ErrChanged] if another catalog has taken the change over.
	commit(hold string, records map[string][]byte) error
	// owns returns [ErrChanged] if another catalog has taken the change over.
	owns(hold string) error
	// outcome reports whether a commit of ch that failed with cause is stored, and which tree the engine must have if it is.
	outcome(ch *change, records map[string][]byte, cause error) (stored bool, next *tree, err error)
	// show lets readers see a change that was stored, and the tokens that it has retired.
	show(ch *change, gone []retired)
	// narrow leaves nothing of a hold but some tables. Without tables it ends.
	narrow(hold string, tables []string)
	// end adds to the last write of a change the end of its hold, or what narrow has left of it.
	end(hold string, records map[string][]byte)
	// release forgets a hold whose change has ended, unless narrow has left some tables.
	release(hold string)
	// disown leaves a task that this catalog no longer owns to its new owner.
	disown(task Task)

	// erase adds to a change that erases its source the records of the work that follows.
	erase(ch *change) error
	// erasing begins the erasure of a source's rows and counters in this engine. The caller calls done with its result.
	erasing(source string) (done func(error))
	// eraseFollowed erases the engine's remaining rows and counters of a source that another catalog erased. The caller holds the lock of the source.
	eraseFollowed(ctx context.Context, source string) error
	// syncFollowed gives the engine the changes of other catalogs.
	syncFollowed(ctx context.Context)
	// dropFollowed drops the tables and raw records of sources that other catalogs have erased, once the engine has nothing left of the sources.
	dropFollowed(ctx context.Context) error

	// checkpoint copies the store into a new folder, or returns [errors.ErrUnsupported].
	checkpoint(dir string) error

	// isShared reports whether engines of other catalogs may have rows of the same sources.
	isShared() bool
	// instances returns the engines that may have rows, by name, and the nodes that have accepted these.
	instances() map[string]string
	// rounds yields the names of these engines. If some of them have ended when the caller has looked at all, their records may have moved to
	// one that the caller has looked at before, and rounds yields again.
	rounds() iter.Seq[[]string]
	// carryOut carries out a request with the engines of this catalog that it concerns.
	carryOut(ctx context.Context, r request) []instanceResponse
	// ask has the other catalogs carry out a request. It returns when each of them has responded, one with enough, or timeout is over.
	ask(ctx context.Context, timeout time.Duration, r request, enough func(instanceResponse) bool) responses
	// count returns the counters of some sources in all engines.
	count(ctx context.Context, sources []string) counts
}

// alone is the coordinator of a catalog that has its store for itself. No change has a hold.
type alone struct{ c *Catalog }

func (a alone) open(_ context.Context, erasures []*erasure) error { return a.c.loadTasks(erasures) }

func (a alone) start(erasures []*erasure, creations []*creation) {
	a.c.resumeErasures(erasures, "")
	a.c.resumeCreations(creations)
	a.c.resumeReplays()
}

func (alone) catchUp(context.Context, time.Duration) error { return nil }

func (alone) await(context.Context) bool { return false }

func (a alone) begin(_ context.Context, _ Ref, _, task string, planned func() (*change, error), records map[string][]byte) (hold string, err error) {
	if task == "" {
		return "", nil
	}
	if _, err := planned(); err != nil {
		return "", err
	}
	err = a.c.store.Commit(records)
	if err != nil {
		a.c.repairs.giveUp(records, err) // no caller will ask for it
	}
	return "", err
}

func (a alone) commit(_ string, records map[string][]byte) error { return a.c.store.Commit(records) }

func (alone) owns(string) error { return nil }

func (a alone) outcome(ch *change, records map[string][]byte, _ error) (stored bool, next *tree, err error) {
	stored, err = a.c.isStored(records)
	return stored, ch.next, err
}

func (a alone) show(ch *change, gone []retired) {
	a.c.retired.add(gone...)
	a.c.defs.set(ch.ref.Source, ch.next)
	a.c.shadows.keep(ch.ref.Source, ch.next)
}

func (alone) narrow(string, []string)       {}
func (alone) end(string, map[string][]byte) {}
func (alone) release(string)                {}
func (alone) disown(Task)                   {}

func (a alone) erase(ch *change) error {
	if e := ch.erasure; e.Archived || a.c.canEraseArchive() {
		ch.records[leftKey(e.Archive)] = encode(erasedMark{At: ch.at})
	}
	return nil
}

func (alone) erasing(string) (done func(error)) { return func(error) {} }

func (alone) eraseFollowed(context.Context, string) error { return nil }
func (alone) syncFollowed(context.Context)                {}
func (alone) dropFollowed(context.Context) error          { return nil }

func (a alone) checkpoint(dir string) error {
	store, ok := a.c.store.(Checkpointer)
	if !ok {
		return fmt.Errorf("%w by the store", errors.ErrUnsupported)
	}
	return store.Checkpoint(dir)
}

func (alone) isShared() bool               { return false }
func (alone) instances() map[string]string { return map[string]string{"": ""} }
func (alone) rounds() iter.Seq[[]string]   { return slices.Values([][]string{{""}}) }

func (a alone) carryOut(ctx context.Context, r request) []instanceResponse {
	return []instanceResponse{a.c.carryOut(ctx, place{eng: a.c.eng}, r)}
}

func (alone) ask(context.Context, time.Duration, request, func(instanceResponse) bool) responses {
	return responses{missing: func(context.Context, func(string) bool) []Missing { return nil }}
}

func (a alone) count(_ context.Context, sources []string) counts { return a.c.engineCounts(sources) }
