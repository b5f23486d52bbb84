package buffertest

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/proctest"
	"github.com/forebay/forebay/internal/seedtest"
)

// Process lets [Kills] use the tables of a target from a second process.
type Process struct {
	// Place returns where the tables are of the target that TargetHarness.Open opened last, for example a path.
	Place func(t *testing.T) string
	// Open returns a driver for the tables at that place. It runs in the second process.
	Open func(t *testing.T, place string) driver.Target
}

// Kills kills a process that imports, at one of four moments in turn: when it has imported the file, when it has ended an attempt while this
// process made the next one, at a random moment, and while it reads a file and this process makes the next attempt. After each kill the same
// file is imported again, and the table must contain each row once. If the target is a [driver.ManyImporter], the process imports files of two
// tables with one call at every second round of the moments.
//
// The environment variable FOREBAY_KILLS says how often it kills. It plays each moment at least once, and nothing with -short. FOREBAY_SEED
// fixes the random moments. A failed test prints the command that repeats it. The harness needs Process. The second process is the test binary
// with the calling test alone, in which Kills does not return:
//
//	func TestKills(t *testing.T) { buffertest.Kills(t, harness) }
func Kills(t *testing.T, h TargetHarness) {
	t.Helper()
	if h.Process == nil {
		t.Fatal("TargetHarness.Process is not set: it opens the tables in a second process, which is then killed")
	}
	if place, ok := proctest.Child(); ok {
		importUntilKilled(t, h.Process.Open(t, place))
	}
	if testing.Short() {
		t.Skip("it starts processes")
	}
	kills := max(proctest.Kills(t), moments)
	k := killer{bench: h.bench(t), rng: seedtest.Rand(t), place: h.Process.Place(t), test: t.Name()}
	k.mustEnsure(eventsTable())
	if _, k.many = k.Target.(driver.ManyImporter); k.many {
		k.mustEnsure(otherTable())
		kills = max(kills, 2*moments)
	}
	t.Logf("%d kills", kills)
	var all, others []*testFile
	for i := range kills {
		if k.kill(i); t.Failed() {
			return
		}
		all, others = append(all, killFile(i)), append(others, killCompanion(i))
	}
	k.expectFiles(eventsTable().ID, all...)
	if k.many {
		k.expectFiles(otherTable().ID, others...)
	}
}

// moments is the number of moments at which [killer.kill] kills.
const moments = 4

// killRows is the number of rows of a file that an import is killed in.
const killRows = 60

func killFile(i int) *testFile {
	return newFile(fmt.Sprintf("file-%06d", i), eventsTable(), makeRows(uint64(i), killRows, 3))
}

// killCompanion returns the file that a [driver.ManyImporter] imports in the same call, into another table.
func killCompanion(i int) *testFile {
	return newFile(fmt.Sprintf("companion-%06d", i), otherTable(), makeRows(uint64(i)+1<<32, killRows, 3))
}

// killsMany reports whether a kill is in ImportMany, of a target that has it.
func killsMany(i int) bool { return i/moments%2 == 1 }

// killer is the process that stays alive.
type killer struct {
	*bench
	many        bool // the target is a driver.ManyImporter
	rng         *rand.Rand
	place, test string
	took        time.Duration // from the second slice to the end of an import
}

func (k *killer) kill(i int) {
	f := killFile(i)
	p := k.start(i)
	p.await("reading")
	imported := false
	switch i % moments {
	case 0: // it has imported
		begin := time.Now()
		p.release()
		p.await("imported")
		k.took, imported = time.Since(begin), true
		p.Kill()
	case 1: // its attempt ends after the next one of this process, or at the same time
		done := k.begin(f)
		select {
		case err := <-done:
			done <- err
		case <-time.After(time.Duration(k.rng.Int64N(int64(besideWait)))): // it waits for a lock
		}
		p.release()
		imported = p.Line() == "imported" // else it has lost against the other
		p.Kill()
		imported = <-done == nil || imported
	case 3: // the next attempt of this process runs, and its attempt ends with it
		done := k.begin(f)
		select {
		case err := <-done:
			done <- err
		case <-time.After(time.Duration(k.rng.Int64N(int64(besideWait)))):
		}
		p.Kill()
		<-done
	default:
		p.release()
		<-time.After(time.Duration(k.rng.Int64N(int64(k.took + 1))))
		p.Kill()
	}
	got := len(k.read(f.table.ID))
	switch {
	case i%moments == 1 && got > killRows*(i+1):
		k.t.Fatalf("kill %d: two processes have imported the same file at once, and the table has %d rows, want %d: let the id exclude a second commit, by a unique key for example. "+
			"A look at what is there, and a lock in one process, do not", i, got, killRows*(i+1))
	case got != killRows*i && got != killRows*(i+1):
		k.t.Fatalf("kill %d: the table has %d rows, want the %d of before or %d: commit all rows of a file together", i, got, killRows*i, killRows*(i+1))
	case imported && got == killRows*i:
		k.t.Fatalf("kill %d: Import had returned nil in the second process, and the rows are not in the table: commit before it returns. "+
			"If it does, Process.Place returned the place of a different target: %q", i, k.place)
	}
	k.mustImport(f)
	if got := len(k.read(f.table.ID)); got != killRows*(i+1) {
		k.t.Fatalf("kill %d: after the next attempt the table has %d rows, want %d: commit the id in the same transaction as the rows",
			i, got, killRows*(i+1))
	}
	k.expectCount(f.table, f.id, killRows)
	if !k.many {
		return
	}
	c := killCompanion(i)
	switch others := len(k.read(c.table.ID)); {
	case others != killRows*i && others != killRows*(i+1):
		k.t.Fatalf("kill %d: the other table has %d rows, want the %d of before or %d: commit all rows of a file together", i, others, killRows*i, killRows*(i+1))
	case killsMany(i) && i%moments%2 == 0 && got > killRows*i && others == killRows*i: // no other process has imported either file
		k.t.Fatalf("kill %d: of two files of one ImportMany one was stored and the other was not: commit them together", i)
	case !killsMany(i) && others != killRows*i:
		k.t.Fatalf("kill %d: the other table has %d rows, want %d", i, others, killRows*i)
	}
	k.mustImport(c)
	if got := len(k.read(c.table.ID)); got != killRows*(i+1) {
		k.t.Fatalf("kill %d: after the next attempt the other table has %d rows, want %d: commit the id in the same transaction as the rows", i, got, killRows*(i+1))
	}
	k.expectCount(c.table, c.id, killRows)
}

// begin imports a file while the other process runs. It may give up on a lock.
func (k *killer) begin(f *testFile) chan error {
	done := make(chan error, 1)
	go func() { done <- k.importFile(k.t.Context(), f) }()
	return done
}

// importer is the process that is killed.
type importer struct {
	*proctest.Process
	t tb
}

// start begins the import of a file in a process, which waits in the second slice until it is released.
func (k *killer) start(i int) importer {
	p := importer{proctest.Start(k.t, k.test, k.place), k.t}
	if _, err := fmt.Fprintln(p.In, i); err != nil {
		k.t.Fatalf("got %v, want no error", err)
	}
	return p
}

// await reads until the process says a word.
func (p importer) await(word string) {
	p.t.Helper()
	for line := p.Line(); line != word; line = p.Line() {
		p.t.Errorf("the process that imports says %q, want %q", line, word)
	}
}

func (p importer) release() { fmt.Fprintln(p.In, "go on") }

// importUntilKilled does in the second process what [importer] asks for.
func importUntilKilled(t *testing.T, target driver.Target) {
	commands := bufio.NewScanner(os.Stdin)
	commands.Scan()
	i, err := strconv.Atoi(commands.Text())
	if err != nil {
		t.Fatal(err)
	}
	f := killFile(i)
	reading, release := make(chan struct{}), make(chan struct{})
	f.fault = heldAt(1, reading, release)
	go func() {
		<-reading
		fmt.Println("reading")
		commands.Scan()
		close(release)
	}()
	imp := func() error { return target.Import(context.Background(), f.attempt()) }
	if many, ok := target.(driver.ManyImporter); ok && killsMany(i) {
		imp = func() error {
			return many.ImportMany(context.Background(), []*driver.File{killCompanion(i).attempt(), f.attempt()})
		}
	}
	if err := imp(); err != nil {
		fmt.Println(err)
	} else {
		fmt.Println("imported")
	}
	for commands.Scan() { // until it is killed, or the other process ends
	}
	t.FailNow()
}
